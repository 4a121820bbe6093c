"""Two processes on the CPU train as one does with the same total batch."""
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import torch

REPOSITORY = Path(__file__).parents[2]

# Nothing random but the order of the samples, which the sampler shares out: in every step the two processes see
# together the four images that one process sees alone.
DETERMINISTIC = '''
    custom_imports = dict(imports=['recorder'])
    custom_hooks = [dict(type='EMAHook', momentum=0.1), dict(type='Recorder')]
    model['backbone']['drop_path_rate'] = 0.
    train_dataloader['batch_size'] = {batch_size}
    train_dataloader['dataset']['pipeline'] = test_pipeline
    train_cfg['max_epochs'] = 2
'''
RECORDER = '''
from mmengine.dist import get_rank
from mmengine.hooks import Hook
from mmengine.registry import HOOKS
import torch


@HOOKS.register_module()
class Recorder(Hook):
    losses = []

    def before_train(self, runner):
        self.losses = []

    def after_train_iter(self, runner, batch_idx, data_batch=None, outputs=None):
        self.losses.append(outputs['loss'].item())

    def after_train(self, runner):
        weights = {name.removeprefix('module.'): value for name, value in runner.model.state_dict().items()}
        accuracy = runner.message_hub.get_scalar('val/accuracy/top1').data[0].tolist()
        torch.save(dict(losses=self.losses, weights=weights, accuracy=accuracy),
                   f'{runner.work_dir}/rank_{get_rank()}.pt')
'''

KILLER = '''
import os
import signal
from mmengine.hooks import Hook
from mmengine.registry import HOOKS


@HOOKS.register_module()
class KilledOnce(Hook):
    def before_train_iter(self, runner, batch_idx, data_batch=None):
        if runner.iter == 5 and runner.rank == 1 and os.environ['TORCHELASTIC_RESTART_COUNT'] == '0':
            os.kill(os.getpid(), signal.SIGKILL)
'''


def run_script(tiny, script, *arguments) -> subprocess.CompletedProcess:
    # `srun` may stand in the test's folder.
    path = f'{tiny.folder}:{Path(sys.executable).parent}:{os.environ["PATH"]}'
    env = {**os.environ, 'PATH': path, 'PYTHONPATH': str(tiny.folder), 'OMP_NUM_THREADS': '1'}
    return subprocess.run(['bash', str(REPOSITORY / 'tools' / script), *map(str, arguments)], env=env, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=180)


def test_two_processes_equal_one_with_the_same_total_batch(tiny, tools, train_on, monkeypatch):
    (tiny.folder / 'recorder.py').write_text(RECORDER)
    monkeypatch.syspath_prepend(str(tiny.folder))
    tiny.write_config(extra=DETERMINISTIC.format(batch_size=4))
    alone = tiny.folder / 'alone'
    assert tools.train([tiny.config, '--work-dir', alone, '--seed', 5]) == 0
    one = torch.load(alone / 'rank_0.pt')

    tiny.write_config(extra=DETERMINISTIC.format(batch_size=2))
    assert train_on(2, tiny.config, '--seed', 5) == [0, 0]
    first, second = (torch.load(tiny.work_dir / f'rank_{rank}.pt') for rank in (0, 1))

    assert all(torch.equal(first['weights'][name], second['weights'][name]) for name in first['weights'])
    # Sums over four images are taken in another order, in single precision: measured 3e-8 on losses and 1.2e-7 on
    # weights. The losses of either process alone differ from the mean by 5e-3 in the first step.
    mean_losses = [(a + b) / 2 for a, b in zip(first['losses'], second['losses'])]
    assert len(mean_losses) == 8
    assert mean_losses == pytest.approx(one['losses'], rel=1e-5, abs=1e-6)
    for name, weight in one['weights'].items():
        torch.testing.assert_close(first['weights'][name], weight, rtol=1e-5, atol=2e-6)

    assert first['accuracy'] == one['accuracy']  # of the images that both processes validate
    assert len(torch.load(tiny.work_dir / 'epoch_2.pth', weights_only=False)['mmflatten']['random']) == 2


def test_training_whose_process_is_killed_goes_on_from_its_last_checkpoint_by_itself(tiny, monkeypatch):
    (tiny.folder / 'killed_once.py').write_text(KILLER)
    tiny.write_config(extra='''
        custom_imports = dict(imports=['killed_once'])
        custom_hooks = [dict(type='KilledOnce')]
        train_cfg['max_epochs'] = 3
    ''')
    monkeypatch.setenv('MAX_RESTARTS', '1')
    finished = run_script(tiny, 'dist_train.sh', tiny.config, 2, '--strategy', 'fsdp')
    assert finished.returncode == 0, finished.stdout
    # Two iterations are an epoch, and the third was under way.
    assert 'holds no checkpoint yet' in finished.stdout and 'resumed epoch: 2, iter: 4' in finished.stdout
    assert (tiny.work_dir / 'epoch_3.pth').is_file()


def test_message_of_a_failing_process_comes_last(tiny):
    failed = run_script(tiny, 'dist_test.sh', tiny.folder / 'nothing.py', 'x.pth', 2)
    assert failed.returncode != 0
    last = failed.stdout.rstrip().splitlines()[-1]
    assert last.startswith('rank ') and f'config {tiny.folder}/nothing.py' in last


@pytest.mark.parametrize('script, arguments, environment, words', [
    ('dist_train.sh', [], {}, 'usage: bash tools/dist_train.sh'),
    ('dist_test.sh', [], {}, 'usage: bash tools/dist_test.sh'),
    ('slurm_train.sh', [], {}, 'usage: bash tools/slurm_train.sh'),
    ('slurm_test.sh', [], {}, 'usage: bash tools/slurm_test.sh'),
    ('dist_train.sh', ['x.py', '--tta'], {}, 'PROCESSES'),
    ('dist_test.sh', ['x.py', 'x.pth', '--tta'], {}, 'PROCESSES'),
    ('dist_train.sh', ['x.py', 2], dict(NNODES='2'), 'MASTER_ADDR'),
    ('dist_train.sh', ['x.py', 2, '--resume', 'epoch_1.pth'], dict(MAX_RESTARTS='3'), 'MAX_RESTARTS (3)'),
    ('dist_train.sh', ['x.py', 2, '--resume=epoch_1.pth'], dict(MAX_RESTARTS='3'), 'MAX_RESTARTS (3)'),
    ('dist_train.sh', ['x.py', 2], dict(PYTHON='{folder}/bare'), 'bare has no torch')])
def test_scripts_say_what_is_missing(tiny, monkeypatch, script, arguments, environment, words):
    (tiny.folder / 'bare').write_text(f'#!/bin/sh\nexec {sys.executable} -S "$@"\n')
    (tiny.folder / 'bare').chmod(0o755)
    for name, value in environment.items():
        monkeypatch.setenv(name, value.replace('{folder}', str(tiny.folder)))
    failed = run_script(tiny, script, *arguments)
    assert failed.returncode != 0 and words in failed.stdout


def test_scripts_hand_on_what_the_user_typed_and_slurm_gets_one_task_per_gpu(tiny, monkeypatch):
    # Stand-ins for Python and srun print what an interrupted training would read, and what they were asked.
    for name in ('python', 'srun'):
        (tiny.folder / name).write_text(
            '#!/bin/sh\n[ "$1" = -c ] || printf "%s\\n" "$MMFLATTEN_COMMAND" "$@"\n')
        (tiny.folder / name).chmod(0o755)
    monkeypatch.setenv('PYTHON', str(tiny.folder / 'python'))
    monkeypatch.setenv('GPUS', '16')
    for script, arguments in (('dist_train.sh', ['a config.py', '2', '--seed', '1']),
                              ('slurm_train.sh', ['gpu', 'name', 'a config.py', 'out', '--resume'])):
        command, *asked = run_script(tiny, script, *arguments).stdout.splitlines()
        assert shlex.split(command) == ['bash', str(REPOSITORY / 'tools' / script), *arguments]
    assert {'--partition=gpu', '--ntasks=16', '--ntasks-per-node=8', '--gres=gpu:8'} <= set(asked)
    assert asked[-7:] == [str(REPOSITORY / 'tools' / 'train.py'), 'a config.py', '--work-dir', 'out', '--resume',
                          '--launcher', 'slurm']
    asked = run_script(tiny, 'slurm_test.sh', 'gpu', 'name', 'a config.py', 'x.pth', '--tta').stdout.splitlines()
    assert asked[-6:] == [str(REPOSITORY / 'tools' / 'test.py'), 'a config.py', 'x.pth', '--tta', '--launcher', 'slurm']

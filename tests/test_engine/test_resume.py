"""Killed and resumed training ends with the weights of an uninterrupted one, bit for bit (CPU, no loader processes)."""
import os
import signal
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest
import torch

REPOSITORY = Path(__file__).parents[2]
# A hook module the config imports: it kills its own process when and how the environment says.
KILLER = '''
    import os
    import signal
    from mmengine.hooks import Hook
    from mmengine.registry import HOOKS

    @HOOKS.register_module()
    class Killer(Hook):
        def before_train_iter(self, runner, batch_idx, data_batch=None):
            if runner.iter == int(os.environ.get('INTERRUPT_AT', -1)):
                signal.signal(signal.SIGINT, signal.default_int_handler)  # background shells are deaf to it
                os.kill(os.getpid(), signal.SIGINT)

        def before_save_checkpoint(self, runner, checkpoint):
            if runner.iter == int(os.environ.get('KILL_SAVING_AT', -1)):
                # Between writing aside and renaming.
                os.replace = lambda *paths: os.kill(os.getpid(), signal.SIGKILL)
'''
USE_KILLER = '''
    custom_imports = dict(imports=['killer'])
    custom_hooks = [dict(type='EMAHook', momentum=0.1), dict(type='Killer')]
'''


@pytest.mark.parametrize('by_epoch, last, environment', [
    (False, 'iter_16.pth', dict(KILL_SAVING_AT='11')),
    (True, 'epoch_4.pth', dict(INTERRUPT_AT='10', MMFLATTEN_COMMAND='bash dist_train.sh a\\ b.py 2 ')),
])
def test_resumed_training_equals_uninterrupted(tiny, tools, monkeypatch, by_epoch, last, environment):
    (tiny.folder / 'killer.py').write_text(dedent(KILLER))
    tiny.write_config(by_epoch, USE_KILLER)
    monkeypatch.syspath_prepend(str(tiny.folder))
    straight = tiny.folder / 'straight'
    assert tools.train([tiny.config, '--work-dir', straight, '--seed', 3]) == 0

    killed = subprocess.run(
        [sys.executable, REPOSITORY / 'tools' / 'train.py', tiny.config, '--seed', '3'], text=True, timeout=120,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        env={**os.environ, 'PYTHONPATH': f'{REPOSITORY}:{tiny.folder}', 'OMP_NUM_THREADS': '1', **environment})
    half_written = [path.name for path in tiny.work_dir.glob('.*.part')]
    if by_epoch:
        assert killed.returncode == 130 and not half_written
        line = killed.stdout.splitlines()[-1]
        assert 'epoch_2.pth' in line and line.endswith(f'{environment["MMFLATTEN_COMMAND"]}--resume')
    else:
        assert killed.returncode == -signal.SIGKILL and half_written == ['.iter_12.pth.part']
    assert not (tiny.work_dir / last).exists()

    # No seed this time: it comes from the checkpoint.
    assert tools.train([tiny.config, '--resume']) == 0

    assert not list(tiny.work_dir.glob('.*.part'))
    one, other = (torch.load(folder / last, weights_only=False) for folder in (straight, tiny.work_dir))
    assert one['param_schedulers'] == other['param_schedulers']
    assert one['optimizer']['param_groups'] == other['optimizer']['param_groups']
    for state in (lambda found: found['state_dict'], lambda found: found['ema_state_dict'],
                  lambda found: found['optimizer']['state']):
        torch.testing.assert_close(state(one), state(other), rtol=0, atol=0)


RECORDER = '''
    from mmengine.hooks import Hook
    from mmengine.registry import HOOKS

    @HOOKS.register_module(force=True)
    class OrderRecorder(Hook):
        def before_train_iter(self, runner, batch_idx, data_batch=None):
            with open(runner.work_dir + '/order.txt', 'a') as order:
                print(*[sample.img_path for sample in data_batch['data_samples']], file=order)

        def after_train(self, runner):
            # Ends the loader processes here; left to the garbage collector each would be waited for, 5 seconds long.
            if hasattr(runner.train_loop, 'dataloader_iterator'):
                runner.train_loop.dataloader_iterator._iterator = None
'''


def test_order_of_samples_goes_on_with_loader_processes_and_no_seed_given(tiny, tools, monkeypatch):
    (tiny.folder / 'order_recorder.py').write_text(dedent(RECORDER))
    monkeypatch.syspath_prepend(str(tiny.folder))
    tiny.write_config(False, '''
        custom_imports = dict(imports=['order_recorder'])
        custom_hooks = [dict(type='OrderRecorder')]
        train_dataloader['num_workers'] = 2
    ''')
    assert tools.train([tiny.config, '--no-validate', '--cfg-options', 'train_cfg.max_iters=8']) == 0
    assert tools.train([tiny.config, '--no-validate', '--resume']) == 0
    seed = torch.load(tiny.work_dir / 'iter_16.pth', weights_only=False)['meta']['seed']

    again = tiny.folder / 'again'
    assert tools.train([tiny.config, '--no-validate', '--work-dir', again, '--seed', seed]) == 0
    order = (tiny.work_dir / 'order.txt').read_text().splitlines()
    assert len(order) == 16 and order == (again / 'order.txt').read_text().splitlines()

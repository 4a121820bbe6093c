"""The launch scripts: restarts, error messages and what they hand on."""

import contextlib
import os
import shlex
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]

# A model and data that import no library of a task, which each process would pay for.
LINE = """
import os
import signal
import torch
from mmengine.hooks import Hook
from mmengine.model import BaseModel
from mmengine.registry import DATASETS, HOOKS, MODELS

@DATASETS.register_module()
class Ones(torch.utils.data.Dataset):
    def __len__(self):
        return 8

    def __getitem__(self, index):
        return dict(inputs=torch.ones(1))

@MODELS.register_module()
class Line(BaseModel):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(1, 1)

    def forward(self, inputs, mode):
        return dict(loss=self.layer(torch.stack(inputs)).square().mean())

@HOOKS.register_module()
class KilledOnce(Hook):
    def before_train_iter(self, runner, batch_idx, data_batch=None):
        first = os.environ['TORCHELASTIC_RESTART_COUNT'] == '0'
        if runner.iter == 3 and first and 'SURVIVES' not in os.environ:
            if 'WITH_AGENT' in os.environ:
                os.kill(os.getppid(), signal.SIGKILL)
            os.kill(os.getpid(), signal.SIGKILL)
"""
CONFIG = """
custom_imports = dict(imports=['line'])
custom_hooks = [dict(type='KilledOnce')]
model = dict(type='Line')
train_dataloader = dict(
    batch_size=4, num_workers=0, sampler=dict(type='DefaultSampler', shuffle=True),
    dataset=dict(type='Ones'))
optim_wrapper = dict(optimizer=dict(type='SGD', lr=0.1))
train_cfg = dict(by_epoch=True, max_epochs=2)
"""


def run_script(tiny, script, *arguments) -> subprocess.CompletedProcess:
    # The folder of the test may have a fake `srun`.
    path = f'{tiny.folder}:{Path(sys.executable).parent}:{os.environ["PATH"]}'
    env = {**os.environ, 'PATH': path, 'PYTHONPATH': str(tiny.folder), 'OMP_NUM_THREADS': '1'}
    return subprocess.run(
        ['bash', str(REPOSITORY / 'tools' / script), *map(str, arguments)],
        env=env,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=600,
    )


def test_training_restarts_from_its_last_checkpoint_after_a_process_is_killed(tiny, monkeypatch):
    (tiny.folder / 'line.py').write_text(LINE)
    tiny.config.write_text(CONFIG)
    monkeypatch.setenv('MAX_RESTARTS', '1')
    finished = run_script(tiny, 'dist_train.sh', tiny.config, 1, '--work-dir', tiny.work_dir)
    assert finished.returncode == 0, finished.stdout
    # An epoch has two iterations; the process was killed in the second epoch.
    assert 'no checkpoint yet' in finished.stdout and 'resumed epoch: 1, iter: 2' in finished.stdout
    assert (tiny.work_dir / 'epoch_2.pth').is_file()


@pytest.fixture
def two_agents(tiny):
    """`two_agents(nodes, **environment)` trains with a launcher that survives and one that has this
    environment.
    """
    (tiny.folder / 'line.py').write_text(LINE)
    tiny.config.write_text(CONFIG)
    with socket.socket() as probe:
        probe.bind(('127.0.0.1', 0))
        port = str(probe.getsockname()[1])
    started = []

    def start(nodes: str, **environment: str) -> list[tuple[int, str]]:
        command = [
            'bash',
            REPOSITORY / 'tools' / 'dist_train.sh',
            tiny.config,
            '1',
            '--work-dir',
            tiny.work_dir,
            '--cfg-options',
            'train_dataloader.batch_size=2',
        ]
        shared = dict(
            os.environ,
            PYTHONPATH=str(tiny.folder),
            PYTHON=sys.executable,
            OMP_NUM_THREADS='1',
            NNODES=nodes,
            MASTER_ADDR='127.0.0.1',
            PORT=port,
            MAX_RESTARTS='2',
        )
        logs = [tiny.folder / f'agent_{rank}.log' for rank in (0, 1)]
        for rank, own in ((0, dict(SURVIVES='1')), (1, environment)):
            with logs[rank].open('w') as log:
                started.append(
                    subprocess.Popen(
                        command,
                        env={**shared, 'NODE_RANK': str(rank), **own},
                        stdout=log,
                        stderr=subprocess.STDOUT,
                        start_new_session=True,
                    )
                )
        return [(agent.wait(300), log.read_text()) for agent, log in zip(started, logs)]

    yield start
    for agent in started:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(agent.pid, signal.SIGKILL)


@pytest.mark.full
def test_two_agents_restart_after_a_process_of_one_is_killed(two_agents):
    statuses, logs = zip(*two_agents('2'))
    assert statuses == (0, 0), logs
    # An epoch has two iterations. Either agent has the process that writes the log.
    assert 'resumed epoch: 1, iter: 2' in ''.join(logs) and 'Epoch(train) [2][2/2]' in ''.join(logs)


@pytest.mark.full
def test_remaining_agent_continues_alone_after_the_other_is_killed(two_agents):
    (first, text), (second, other) = two_agents('1:2', WITH_AGENT='1')
    assert first == 0 and second != 0, text
    # The only process has the four iterations of an epoch.
    assert 'Epoch(train) [1][2/2]' in text + other and 'resumed epoch: 1, iter: 2' in text
    assert 'Epoch(train) [2][4/4]' in text


def test_message_of_a_failing_process_is_printed_last(tiny):
    failed = run_script(tiny, 'dist_test.sh', tiny.folder / 'nothing.py', 'x.pth', 2)
    assert failed.returncode != 0
    last = failed.stdout.rstrip().splitlines()[-1]
    assert last.startswith('rank ') and f'config {tiny.folder}/nothing.py' in last


@pytest.mark.parametrize(
    'script, arguments, environment, words',
    [
        ('dist_train.sh', [], {}, 'usage: bash tools/dist_train.sh'),
        ('dist_test.sh', [], {}, 'usage: bash tools/dist_test.sh'),
        ('slurm_train.sh', [], {}, 'usage: bash tools/slurm_train.sh'),
        ('slurm_test.sh', [], {}, 'usage: bash tools/slurm_test.sh'),
        ('dist_train.sh', ['x.py', '--tta'], {}, 'PROCESSES'),
        ('dist_test.sh', ['x.py', 'x.pth', '--tta'], {}, 'PROCESSES'),
        ('dist_train.sh', ['x.py', 2], dict(NNODES='2'), 'MASTER_ADDR'),
        (
            'dist_train.sh',
            ['x.py', 2, '--resume', 'epoch_1.pth'],
            dict(MAX_RESTARTS='3'),
            'MAX_RESTARTS (3)',
        ),
        (
            'dist_train.sh',
            ['x.py', 2, '--resume=epoch_1.pth'],
            dict(MAX_RESTARTS='3'),
            'MAX_RESTARTS (3)',
        ),
        ('dist_train.sh', ['x.py', 2], dict(PYTHON='{folder}/bare'), 'bare has no torch'),
    ],
)
def test_scripts_reject_invalid_arguments(tiny, monkeypatch, script, arguments, environment, words):
    (tiny.folder / 'bare').write_text(f'#!/bin/sh\nexec {sys.executable} -S "$@"\n')
    (tiny.folder / 'bare').chmod(0o755)
    for name, value in environment.items():
        monkeypatch.setenv(name, value.replace('{folder}', str(tiny.folder)))
    failed = run_script(tiny, script, *arguments)
    assert failed.returncode != 0 and words in failed.stdout


def test_scripts_pass_the_command_line_on_and_slurm_runs_one_task_per_gpu(tiny, monkeypatch):
    # Fake Python and srun print the command line for an interrupted training and their own
    # arguments.
    for name in ('python', 'srun'):
        (tiny.folder / name).write_text(
            '#!/bin/sh\n[ "$1" = -c ] || printf "%s\\n" "$MMFLATTEN_COMMAND" "$@"\n'
        )
        (tiny.folder / name).chmod(0o755)
    monkeypatch.setenv('PYTHON', str(tiny.folder / 'python'))
    monkeypatch.setenv('GPUS', '16')
    for script, arguments in (
        ('dist_train.sh', ['a config.py', '2', '--seed', '1']),
        ('slurm_train.sh', ['gpu', 'name', 'a config.py', 'out', '--resume']),
    ):
        command, *asked = run_script(tiny, script, *arguments).stdout.splitlines()
        assert shlex.split(command) == ['bash', str(REPOSITORY / 'tools' / script), *arguments]
    assert {'--partition=gpu', '--ntasks=16', '--ntasks-per-node=8', '--gres=gpu:8'} <= set(asked)
    assert asked[-9:] == [
        str(REPOSITORY / 'tools' / 'train.py'),
        'a config.py',
        '--work-dir',
        'out',
        '--cfg-options',
        'train_dataloader.num_workers=4',
        '--resume',
        '--launcher',
        'slurm',
    ]
    asked = run_script(
        tiny, 'slurm_test.sh', 'gpu', 'name', 'a config.py', 'x.pth', '--tta'
    ).stdout.splitlines()
    assert asked[-6:] == [
        str(REPOSITORY / 'tools' / 'test.py'),
        'a config.py',
        'x.pth',
        '--tta',
        '--launcher',
        'slurm',
    ]

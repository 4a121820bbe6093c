"""The end of a command: exit status, last line, traceback, and the message for the launcher."""

import errno
import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from mmengine.logging import MMLogger

from mmflatten.cli.common import add_output, command, tool_parser
from mmflatten.console import ERROR_FOLDER_VARIABLE, command_line, explain, quiet_libraries
from mmflatten.engine.naming_pipeline import SampleError

REPOSITORY = Path(__file__).parents[2]


def ending_with(error):
    @command_line
    def main(argv):
        raise error

    return main


def test_file_names_that_are_not_utf_8_are_printed(capfdbinary):
    code = (
        'from mmflatten.console import command_line; command_line(lambda argv:'
        " print('n\\udcff.png'))([])"
    )
    subprocess.run([sys.executable, '-c', code], check=True, env={**os.environ, 'PYTHONUTF8': '1'})
    assert capfdbinary.readouterr().out == b'n\\udcff.png\n'


class OutOfMemoryError(RuntimeError):
    """An error of a library."""


@pytest.mark.parametrize(
    'error, words',
    [
        (KeyboardInterrupt(), ['interrupted']),
        (ValueError('embed_dims (100) must be even'), ['embed_dims (100) must be even']),
        (PermissionError(13, 'Permission denied', '/some/file'), ['/some/file: Permission denied']),
        (FileExistsError(17, 'File exists', 'run'), ['run: File exists']),
        (
            FileNotFoundError(2, 'No such file', 'data/coco/annotations/x.json'),
            ['data/coco', 'cocodataset.org'],
        ),
        (
            OSError(errno.ENOSPC, 'No space left on device', 'a.csv'),
            ['No space left on device', 'a.csv', 'MiB are free'],
        ),
        (KeyError('categories'), ['KeyError: categories']),
        (AssertionError(), ['AssertionError']),
        (OutOfMemoryError('error:\n  something\n'), ['OutOfMemoryError: error: something']),
        (
            RuntimeError('DataLoader worker (pid 7) is killed by signal: Killed. '),
            ['pid 7', 'num_workers'],
        ),
        (
            torch.cuda.OutOfMemoryError('CUDA out of memory. Tried to allocate 2.00 GiB.'),
            ['2.00 GiB', 'batch size'],
        ),
        (
            ModuleNotFoundError("No module named 'mmdet'", name='mmdet'),
            ['pip install onedl-mmdetection'],
        ),
        (
            SampleError(
                'Caught SampleError in DataLoader worker process 0.\n'
                'Original Traceback (most recent call last):\n'
                '  File "x.py", line 1\n'
                'ValueError: inner\n\n'
                'The above exception was the direct cause:\n\n'
                'mmflatten.engine.naming_pipeline.SampleError: image a.png cannot be read\n'
            ),
            ['image a.png cannot be read'],
        ),
    ],
)
def test_error_gives_a_status_and_one_last_line(capsys, monkeypatch, error, words):
    monkeypatch.setattr(shutil, 'disk_usage', lambda path: SimpleNamespace(free=2**30))
    assert ending_with(error)([]) == (130 if isinstance(error, KeyboardInterrupt) else 1)
    line = capsys.readouterr().err.splitlines()[-1]
    assert line == explain(error) and all(word in line for word in words)


def test_full_disk_gives_the_free_space_of_the_output_folder(capsys, monkeypatch, tmp_path):
    asked = []
    monkeypatch.setattr(
        shutil, 'disk_usage', lambda path: asked.append(path) or SimpleNamespace(free=2**30)
    )

    @command(
        'any',
        'A command.',
        lambda parser: add_output(parser, str(tmp_path / 'new' / 'out'), 'files'),
    )
    def main(args):
        raise OSError(errno.ENOSPC, 'No space left on device')  # as of a write

    assert main([]) == 1 and asked == [tmp_path]
    assert str(tmp_path / 'new' / 'out') in capsys.readouterr().err
    assert ending_with(OSError(errno.ENOSPC, 'No space left on device'))([]) == 1
    assert len(asked) == 1
    assert 'MiB' not in capsys.readouterr().err  # nobody knows which disk


def test_exit_status_is_zero_or_the_returned_one():
    assert command_line(lambda argv: None)([]) == 0
    assert command_line(lambda argv: 3)([]) == 3
    with pytest.raises(SystemExit) as stop:
        command_line(lambda argv: tool_parser('A command.').parse_args(argv))(['--wrong'])
    assert stop.value.code == 2


def test_traceback_is_logged_and_printed_on_request(tiny, tools, fails, capsys, monkeypatch):
    arguments = [tiny.config, '--cfg-options', 'model.backbone.attn_types=LX']
    assert fails('train', *arguments)
    (log,) = tiny.work_dir.glob('*/*.log')
    assert 'Traceback' in log.read_text()
    assert tools.train([*arguments, '--traceback']) == 1
    assert 'Traceback' in capsys.readouterr().err
    monkeypatch.setenv('MMFLATTEN_TRACEBACK', '1')
    ending_with(ZeroDivisionError('division by zero'))([])
    assert 'Traceback' in capsys.readouterr().err


def test_first_failing_process_writes_its_message_for_the_launcher(tmp_path, monkeypatch):
    monkeypatch.setenv(ERROR_FOLDER_VARIABLE, str(tmp_path))
    monkeypatch.setenv('WORLD_SIZE', '2')
    for restart, rank, text in (('0', '1', 'first'), ('0', '0', 'second'), ('1', '0', 'later')):
        monkeypatch.setenv('RANK', rank)
        monkeypatch.setenv('TORCHELASTIC_RESTART_COUNT', restart)
        ending_with(ModuleNotFoundError(text))([])
    assert [note.read_text() for note in sorted(tmp_path.iterdir())] == [
        'rank 1: first\n',
        'rank 0: later\n',
    ]


def test_quiet_libraries_restores_the_log_level():
    logger = MMLogger.get_current_instance()
    with quiet_libraries():
        assert not logger.isEnabledFor(20)
    assert logger.isEnabledFor(20)


def test_first_loss_comes_after_few_lines(scenes, tmp_path):
    """A new process, as libraries print when they are imported; a detector, whose libraries print
    most.
    """
    config = tmp_path / 'mine.py'
    base = REPOSITORY / 'configs' / 'digits' / 'retinanet_flatten-swin-nano_fpn_digits.py'
    config.write_text(
        f"_base_ = ['{base}']\ntrain_cfg = dict(max_epochs=1)\n"
        'default_hooks = dict(logger=dict(interval=1))\ntrain_dataloader = dict(batch_size=2)\n'
    )
    cfg = {f'{split}_dataloader.dataset.data_root': f'{scenes}/' for split in ('train', 'val')}
    cfg |= {'val_evaluator.ann_file': f'{scenes}/annotations/instances_val.json'}
    command = [
        sys.executable,
        '-m',
        'mmflatten',
        'train',
        str(config),
        '--work-dir',
        str(tmp_path / 'run'),
        '--cfg-options',
        *(f'{name}={value}' for name, value in cfg.items()),
    ]
    shown = subprocess.run(command, capture_output=True, text=True, timeout=300)
    lines = (shown.stdout + shown.stderr).splitlines()
    assert shown.returncode == 0, lines[-5:]
    before = lines[: next(number for number, line in enumerate(lines) if ' loss: ' in line)]
    assert len(before) < 30
    assert not [line for line in before if 'Warning' in line or 'OneDL' in line]
    log = next((tmp_path / 'run').glob('*/*.log')).read_text()
    assert 'System environment' in log and 'Config:' in log

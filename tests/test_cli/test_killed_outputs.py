"""Outputs of commands that are killed or short of disk space: the old file stays, and no part of a
new one.
"""

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import cv2
import numpy as np
import pytest

from mmflatten.cli.data import main as data
from mmflatten.cli.export import main as export
from mmflatten.cli.init import main as init
from mmflatten.cli.report import main as report
from mmflatten.cli.test import main as evaluate

CLASSIFIER = 'flatten-swin-nano_digits'
OLD = 'of an earlier run'


class Case(NamedTuple):
    """A command line that writes the file `out`."""

    main: Callable[[list[str]], int]
    words: list[object]
    out: Path


def case_of(name: str, folder: Path, train_on: Callable) -> Case:
    if name in ('init', 'index'):
        images = folder / 'images'
        for number in range(40):  # with long names, so that their list is larger than a config
            file = images / 'ab'[number % 2] / f'{"long" * 50}{number}.png'
            file.parent.mkdir(parents=True, exist_ok=True)
            cv2.imwrite(
                str(file), np.random.default_rng(number).integers(0, 256, (16, 16, 3), np.uint8)
            )
    if name == 'index':
        out = folder / 'out' / 'new.index'
        return Case(data, ['index', images, '--out', out], out)
    if name == 'init':
        out = folder / 'out' / 'own.py'
        words = [
            '--task',
            'cls',
            '--images',
            images,
            '--base',
            f'{CLASSIFIER}',
            '--out',
            out,
            '--force',
        ]
        return Case(init, words, out)
    run = train_on(CLASSIFIER)
    if name == 'report':
        out = folder / 'out' / 'report.html'
        return Case(report, [run.folder / 'run', '--out', out], out)
    if name == 'export':
        out = folder / 'out' / 'model.onnx'
        return Case(export, [run.config, run.checkpoint, '--out', out], out)
    out = folder / 'out' / 'results.pkl'
    return Case(
        evaluate, [run.config, run.checkpoint, '--work-dir', folder / 'log', '--out', out], out
    )


def prepare(name: str, folder: Path, train_on: Callable) -> Case:
    case = case_of(name, folder, train_on)
    case.out.parent.mkdir()
    if name != 'index':  # which replaces no file
        case.out.write_text(OLD)
    return case


def require_old(case: Case, name: str) -> None:
    assert not case.out.exists() if name == 'index' else case.out.read_text() == OLD


def status_after(number: int, case: Case, in_child: Callable, errors: Path) -> int:
    """Run a command in another process, which gets a signal when its new file is complete but has
    no name yet.
    """

    def child() -> int:
        os.replace = lambda *_, **__: signal.raise_signal(number)
        return case.main([str(word) for word in case.words])

    return in_child(child, errors)


@pytest.mark.parametrize('name', ['test', 'report', 'init', 'index'])
def test_terminated_command_leaves_the_old_output_alone(name, tmp_path, train_on, in_child):
    case = prepare(name, tmp_path, train_on)
    assert status_after(signal.SIGTERM, case, in_child, tmp_path / 'errors') == 128 + signal.SIGTERM
    require_old(case, name)
    assert not [path for path in case.out.parent.iterdir() if path != case.out]


# An export is slow, and its file is written by the same code as the results of a test.
@pytest.mark.parametrize(
    'name', ['test', 'report', pytest.param('export', marks=pytest.mark.full), 'init', 'index']
)
def test_killed_command_leaves_the_old_output_and_hidden_files(name, tmp_path, train_on, in_child):
    case = prepare(name, tmp_path, train_on)
    assert status_after(signal.SIGKILL, case, in_child, tmp_path / 'errors') == -signal.SIGKILL
    require_old(case, name)
    left = [path.name for path in case.out.parent.iterdir() if path != case.out]
    assert left and all(name.startswith('.') for name in left)
    if name in ('init', 'index'):  # the others are slower, and clean by the same code
        assert case.main([str(word) for word in case.words]) == 0
        assert case.out.exists() and not [*case.out.parent.glob('.*')]


@pytest.mark.parametrize(('name', 'limit'), [('report', 10_000), ('init', 6000), ('index', 10)])
def test_full_disk_keeps_the_old_output_and_names_the_new_one(
    name, limit, tmp_path, train_on, in_child
):
    case = prepare(name, tmp_path, train_on)
    assert (
        in_child(lambda: case.main([str(word) for word in case.words]), tmp_path / 'errors', limit)
        == 1
    )
    require_old(case, name)
    assert [path for path in case.out.parent.iterdir() if path != case.out] == []
    text = (tmp_path / 'errors').read_text()
    assert str(case.out.parent) in text.splitlines()[-1] and 'Traceback' not in text

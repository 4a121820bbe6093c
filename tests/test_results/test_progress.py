"""Iterations and seconds of trainings that were killed, resumed or replaced."""

import json
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from mmflatten.results.curves import read_scalars
from mmflatten.results.progress import trained_iterations, training_seconds

PER_EPOCH, INTERVAL = 69, 50


class Run:
    """The two logs of a run, in MMEngine's formats."""

    def __init__(self, work_dir: Path, name: str) -> None:
        self.folder = work_dir / name
        self.time = datetime(2026, 1, 1)
        self.text = [self.line('Loading the data set')]
        self.records: list[dict] = []

    def line(self, message: str) -> str:
        return f'{self.time:%Y/%m/%d %H:%M:%S} - mmengine - INFO - {message}'

    def train(self, epoch: int, inner: int) -> None:
        self.time += timedelta(seconds=10)
        iteration = (epoch - 1) * PER_EPOCH + inner
        self.records.append(dict(loss=1.0, time=0.2, epoch=epoch, iter=iteration, step=iteration))
        self.text.append(
            self.line(f'Epoch(train)  [{epoch}][{inner}/{PER_EPOCH}]  lr: 1.0000e-03  loss: 1.0000')
        )

    def validate(self, epoch: int) -> None:
        self.time += timedelta(seconds=5)
        self.records.append(dict(acc=1.0, step=epoch))
        self.text.append(self.line(f'Epoch(val) [{epoch}][4/4]    acc: 1.0000'))

    def write(self) -> None:
        (self.folder / 'vis_data').mkdir(parents=True)
        (self.folder / 'vis_data' / 'scalars.json').write_text(
            '\n'.join(map(json.dumps, self.records))
        )
        (self.folder / f'{self.folder.name}.log').write_text(
            '\n'.join([*self.text, 'a line without a time'])
        )


def epochs(work_dir: Path, name: str, numbers: range, killed: bool = False) -> None:
    """Write a run of these epochs; a killed one also has begun the next."""
    run = Run(work_dir, name)
    for epoch in numbers:
        run.train(epoch, INTERVAL)
        run.validate(epoch)
    if killed:
        run.train(numbers[-1] + 1, INTERVAL)
    run.write()


def checkpoint(work_dir: Path, name: str) -> None:
    (work_dir / 'last_checkpoint').write_text(f'/moved/{name}')


def iterations(work_dir: Path) -> int | None:
    return trained_iterations(work_dir, read_scalars(work_dir))


def test_rest_of_the_last_epoch_counts_without_being_logged(tmp_path):
    epochs(tmp_path, '1', range(1, 4))
    # of the log, because the checkpoint is unknown
    assert iterations(tmp_path) == 2 * PER_EPOCH + INTERVAL
    checkpoint(tmp_path, 'epoch_3.pth')
    assert iterations(tmp_path) == 3 * PER_EPOCH
    assert training_seconds(tmp_path) == 3 * (10 + 5)


@pytest.mark.parametrize(
    'name, expected',
    [
        ('iter_170.pth', 188),
        ('iter_200.pth', 200),
        ('iter_4000.pth', 188),
        ('epoch_12.pth', 188),
        ('best.pth', 188),
    ],
)
def test_checkpoints_of_another_training_do_not_count(tmp_path, name, expected):
    epochs(tmp_path, '1', range(1, 4))
    checkpoint(tmp_path, name)
    assert iterations(tmp_path) == expected


def test_repeated_iterations_count_once(tmp_path):
    """Of 40 s the last 10 are those of an epoch that the resumed run repeats."""
    epochs(tmp_path, '1', range(1, 3), killed=True)
    epochs(tmp_path, '2', range(3, 4))
    checkpoint(tmp_path, 'epoch_3.pth')
    assert iterations(tmp_path) == 3 * PER_EPOCH
    assert training_seconds(tmp_path) == 2 * (10 + 5) + (10 + 5)


def test_run_that_a_new_training_replaced_does_not_count(tmp_path):
    epochs(tmp_path, '1', range(1, 3))
    epochs(tmp_path, '2', range(1, 2))
    assert training_seconds(tmp_path) == 10 + 5
    assert iterations(tmp_path) == INTERVAL


def test_test_and_missing_text_log_have_no_time(tmp_path):
    run = Run(tmp_path, '1')
    run.validate(0)
    run.write()
    assert training_seconds(tmp_path) == 0 and trained_iterations(tmp_path, run.records) is None
    epochs(tmp_path, '2', range(1, 2))
    (tmp_path / '2' / '2.log').unlink()
    assert training_seconds(tmp_path) == 0 and iterations(tmp_path) == INTERVAL

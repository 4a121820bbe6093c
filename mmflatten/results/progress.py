"""Iterations and seconds of a training, from its logs and the name of its last checkpoint."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from pathlib import Path

from mmflatten.results.curves import LOGS, is_training, iteration_of
from mmflatten.untrusted.files import problem_of

# Lines of MMEngine's text log. In a training by epochs:
#   2026/01/31 23:59:59 - mmengine - INFO - Epoch(train)  [2][ 50/69]  ...
# and in one by iterations:
#   2026/01/31 23:59:59 - mmengine - INFO - Iter(train) [  50/2000]  ...
_TIME = re.compile(r'(\d{4}/\d\d/\d\d \d\d:\d\d:\d\d) - ')
_EPOCH = re.compile(r'Epoch\(train\)\s+\[\s*(\d+)\]\[\s*(\d+)/\s*(\d+)\]')
_ITERATION = re.compile(r'Iter\(train\)\s+\[\s*(\d+)/')
_CHECKPOINT = re.compile(r'(epoch|iter)_(\d+)\.pth')


@dataclass(frozen=True)
class _Line:
    """A line of a text log with its time."""

    time: datetime
    iteration: int  # of the training so far; 0 before its first line
    per_epoch: int | None  # iterations of an epoch, if this is a line of a training by epochs


def trained_iterations(work_dir: Path, records: Sequence[dict]) -> int | None:
    """Return the number of iterations that a training finished; None without a record of one.

    MMEngine logs every 50 iterations by default and leaves out the rest of an epoch, so the last
    record may be earlier than the last iteration. The last checkpoint is named by its epoch, whose
    length is in the text log, or by its iteration.

    Args:
        work_dir: folder of the training.
        records: its records, as `read_scalars` returns them.
    """
    logged = [iteration_of(record) for record in records if is_training(record)]
    if not logged:
        return None
    saved = _saved_iteration(work_dir)
    longest_gap = max(after - before for before, after in pairwise([0, *logged]))
    # A checkpoint further away is that of an earlier training in the same folder.
    is_last = logged[-1] < saved < logged[-1] + longest_gap
    return saved if is_last else logged[-1]


def training_seconds(work_dir: Path) -> float:
    """Return the wall-clock seconds of the training that led to the last record, with start-up and
    validations.

    A resumed run repeats the iterations after its checkpoint, so the time of the run before it ends
    at the last line that is not repeated. Runs replaced by a new training are left out.
    """
    kept: list[list[_Line]] = []
    for scalars in sorted(work_dir.glob(LOGS)):
        for log in sorted(scalars.parents[1].glob('*.log')):
            run = _read_lines(log)
            iterations = [line.iteration for line in run if line.iteration]
            if not iterations:  # a test, or a run that ended before its first record
                continue
            kept = [_before(earlier, iterations[0]) for earlier in kept]
            kept.append(run)
    seconds = 0.0
    for run in kept:
        if run and run[-1].iteration:
            seconds += (run[-1].time - run[0].time).total_seconds()
    return seconds


def _before(lines: Sequence[_Line], iteration: int) -> list[_Line]:
    return [line for line in lines if line.iteration < iteration]


def _saved_iteration(work_dir: Path) -> int:
    """Return the iteration of the checkpoint that `last_checkpoint` names; 0 if it is unknown."""
    pointer = work_dir / 'last_checkpoint'
    if problem_of(pointer) is not None:
        return 0
    name = pointer.read_text(encoding='utf-8', errors='replace')[:4096].strip()
    match = _CHECKPOINT.fullmatch(name.rpartition('/')[2])
    if match is None:
        return 0
    unit, number = match[1], int(match[2])
    if unit == 'iter':
        return number
    lengths = [0]
    for log in sorted(work_dir.glob('*/*.log')):
        lengths += [line.per_epoch for line in _read_lines(log) if line.per_epoch]
    return number * lengths[-1]


def _read_lines(log: Path) -> list[_Line]:
    """Read the lines with a time from a text log; a log that cannot be read has none."""
    if problem_of(log) is not None:
        return []
    lines: list[_Line] = []
    iteration = 0
    for text in log.read_text(encoding='utf-8', errors='replace').splitlines():
        per_epoch = None
        if match := _EPOCH.search(text):
            epoch, inner, per_epoch = map(int, match.groups())
            iteration = (epoch - 1) * per_epoch + inner
        elif match := _ITERATION.search(text):
            iteration = int(match[1])
        if stamp := _TIME.match(text):
            time = datetime.strptime(stamp[1], '%Y/%m/%d %H:%M:%S')
            lines.append(_Line(time, iteration, per_epoch))
    return lines

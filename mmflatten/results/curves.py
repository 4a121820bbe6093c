"""Records of trainings from their logs: merged over resumes, and as curves."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from mmflatten.results.figures import Lines
from mmflatten.untrusted.files import UnusableFile, problem_of, read_bytes

LOGS = '*/vis_data/scalars.json'  # in a work dir, one for each run
NOT_METRICS = {'step', 'time', 'data_time', 'epoch', 'iter', 'lr', 'memory', 'grad_norm'}


def read_scalars(work_dir: str | Path) -> list[dict]:
    """Read the training records of a work dir, as MMEngine's `LocalVisBackend` logged them, merged
    over resumes.

    A resumed run repeats the iterations after its checkpoint; the records of the earlier run are
    then dropped.

    Raises:
        FileNotFoundError: the work dir has no log of a training.
        ValueError: a log is damaged.
    """
    merged: list[tuple[int, dict]] = []  # iteration and record
    for log in sorted(Path(work_dir).glob(LOGS)):
        run = _with_iterations(_read_lines(log))
        trained = [iteration for iteration, record in run if is_training(record)]
        # Tests, and runs that stopped before their first record, have none.
        if trained:
            merged = _without_repeated(merged, run, first=min(trained)) + run
    if not merged:
        raise FileNotFoundError(f'{work_dir}: no training log ({LOGS}).')
    return [record for _, record in merged]


def _with_iterations(records: Sequence[dict]) -> list[tuple[int, dict]]:
    """Add the iteration of each record; a validation has that of the training record before it."""
    run, iteration = [], 0
    for record in records:
        if is_training(record):
            iteration = iteration_of(record)
        run.append((iteration, record))
    return run


def _without_repeated(
    merged: Sequence[tuple[int, dict]], run: Sequence[tuple[int, dict]], first: int
) -> list[tuple[int, dict]]:
    """Return the earlier records that a run, which starts at the iteration `first`, does not
    repeat.
    """
    validated = {record['step'] for _, record in run if not is_training(record)}
    kept = []
    for iteration, record in merged:
        is_repeated = not is_training(record) and record['step'] in validated
        if iteration < first and not is_repeated:
            kept.append((iteration, record))
    return kept


def _read_lines(log: Path) -> list[dict]:
    """Parse a log; an incomplete last line of a killed run is dropped."""
    try:
        lines = read_bytes(log).splitlines()
    except (FileNotFoundError, UnusableFile) as error:
        raise ValueError(f'{log} {problem_of(log) or error}. Restore or remove it.') from error
    records = []
    for number, line in enumerate(lines, 1):
        try:
            record = json.loads(line)
        except (ValueError, RecursionError) as error:  # not JSON, or not UTF-8
            if number < len(lines):
                raise ValueError(
                    f'{log}, line {number} is not JSON ({error}). Restore or remove the file.'
                ) from error
            continue
        if not isinstance(record, dict) or not isinstance(record.get('step'), int):
            raise ValueError(
                f'{log}, line {number} has no integer "step", got {record}. Restore or remove the'
                ' file.'
            )
        records.append(record)
    return records


def is_training(record: dict) -> bool:
    """Return True for a record of training iterations, False for one of a validation."""
    return 'loss' in record


def iteration_of(record: dict) -> int:
    """Return the iteration of a record of training."""
    return record.get('iter', record['step'])


def is_undefined(key: str, value: float) -> bool:
    """Return True for -1 of a COCO metric, which marks a metric without objects."""
    return value == -1 and key.startswith('coco/')


def name_runs(work_dirs: Sequence[str | Path]) -> dict[str, Path]:
    """Map names to work dirs: the name of the folder, or its path if two folders have the same
    name.

    Raises:
        ValueError: a work dir is listed twice.
    """
    # `resolve` fails for a link to itself
    paths = [Path(os.path.realpath(work_dir)) for work_dir in work_dirs]
    for path in paths:
        if paths.count(path) > 1:
            raise ValueError(f'work dir: {path} is listed twice.')
    names = [path.name for path in paths]
    runs = {}
    for name, work_dir in zip(names, work_dirs):
        is_unique = names.count(name) == 1
        runs[name if is_unique else str(work_dir)] = Path(work_dir)
    return runs


def read_runs(work_dirs: Sequence[str | Path]) -> dict[str, list[dict]]:
    """Read the records of several trainings, by the names and with the errors of `name_runs` and
    `read_scalars`.
    """
    return {name: read_scalars(path) for name, path in name_runs(work_dirs).items()}


def curve(key: str, runs: Mapping[str, Sequence[dict]]) -> Lines:
    """Return the values of a key over iterations, or over epochs for validations by epoch, one line
    for each run.
    """
    of_training = any(_has_training_value(records, key) for records in runs.values())
    lines = {}
    for name, records in runs.items():
        x, y = [], []
        for record in records:
            if key not in record or is_training(record) != of_training:
                continue
            if not is_undefined(key, record[key]):
                x.append(record['step'])
                y.append(record[key])
        lines[name] = tuple(x), tuple(y)
    by_epoch = not of_training and all(map(_validates_by_epoch, runs.values()))
    return Lines(lines, 'epoch' if by_epoch else 'iteration', markers=not of_training)


def _has_training_value(records: Sequence[dict], key: str) -> bool:
    return any(key in record and is_training(record) for record in records)


def _validates_by_epoch(records: Sequence[dict]) -> bool:
    """Return True if the steps of validations are epochs, as MMEngine logs them in training by
    epoch.
    """
    last_step, last_epoch = 0, 0
    for record in records:
        if is_training(record):
            last_epoch = max(last_epoch, record.get('epoch', 0))
        else:
            last_step = max(last_step, record['step'])
    return last_step <= last_epoch

"""Records of trainings from their logs: merged over resumes, and as curves."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from mmflatten.files import UnusableFile, problem_of, read_bytes
from mmflatten.results.figures import Lines

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
        run, iteration = [], 0
        # a validation takes the iteration of the training record before it
        for record in _read_lines(log):
            iteration = iteration_of(record) if is_training(record) else iteration
            run.append((iteration, record))
        trained = [iteration for iteration, record in run if is_training(record)]
        if trained:  # not a test, nor a run that stopped before its first record
            validated = {record['step'] for _, record in run if not is_training(record)}
            merged = [
                (iteration, record)
                for iteration, record in merged
                if iteration < min(trained)
                and (is_training(record) or record['step'] not in validated)
            ] + run
    if not merged:
        raise FileNotFoundError(f'{work_dir}: no training log ({LOGS}).')
    return [record for _, record in merged]


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
    paths = [Path(work_dir).resolve() for work_dir in work_dirs]
    for path in paths:
        if paths.count(path) > 1:
            raise ValueError(f'work dir: {path} is given twice.')
    names = [path.name for path in paths]
    return {
        name if names.count(name) == 1 else str(work_dir): Path(work_dir)
        for name, work_dir in zip(names, work_dirs)
    }


def read_runs(work_dirs: Sequence[str | Path]) -> dict[str, list[dict]]:
    """Read the records of several trainings, by the names and with the errors of `name_runs` and
    `read_scalars`.
    """
    return {name: read_scalars(path) for name, path in name_runs(work_dirs).items()}


def curve(key: str, runs: Mapping[str, Sequence[dict]]) -> Lines:
    """Return the values of a key over iterations, or over epochs for validations by epoch, one line
    for each run.
    """
    of_training = any(
        is_training(record) for records in runs.values() for record in records if key in record
    )
    lines = {}
    for name, records in runs.items():
        points = [
            (record['step'], record[key])
            for record in records
            if key in record
            and is_training(record) == of_training
            and not is_undefined(key, record[key])
        ]
        lines[name] = tuple(zip(*points)) if points else ((), ())
    # MMEngine logs the steps of validations as epochs in training by epoch.
    by_epoch = not of_training and all(
        max((record['step'] for record in records if not is_training(record)), default=0)
        <= max((record.get('epoch', 0) for record in records if is_training(record)), default=0)
        for records in runs.values()
    )
    return Lines(lines, 'epoch' if by_epoch else 'iteration', markers=not of_training)

"""CSV tables of runs, which reports write, and which reports and further studies can be made
from.
"""

import math
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import Any, get_type_hints

from mmflatten.untrusted import csv_files
from mmflatten.untrusted.files import UnusableFile
from mmflatten_lab.studies.runs import StudyRun
from mmflatten_lab.studies.study_fields import StudyError

_NUMBERS = ('metrics', 'validations')  # mappings whose values are numbers; other mappings hold text


def write_csv(runs: Sequence[StudyRun], path: Path) -> None:
    """Write one row per run, with a column for every item of a mapping."""
    rows = [_row(run) for run in runs]
    header = list(dict.fromkeys(chain.from_iterable(rows)))
    cells = [list(map(row.get, header)) for row in rows]
    csv_files.write_csv(path, header, cells)


def _row(run: StudyRun) -> dict[str, Any]:
    """Columns of a run. NaN is an empty cell."""
    row: dict[str, Any] = {}
    for key, value in run.result().items():
        if isinstance(value, dict):
            for name, item in value.items():
                row[f'{key}.{name}'] = item
        else:
            row[key] = value
    for column, value in row.items():
        if isinstance(value, float) and math.isnan(value):
            row[column] = None
    return row


def read_csv(path: Path) -> dict[str, dict[str, Any]]:
    """Read the results of a table by name of the run.

    Raises:
        StudyError: the file is missing, has no names, or a number in it cannot be read.
    """
    if not path.is_file():
        raise StudyError(
            f'--from: expected the table {path.name} of an earlier report, got {path}. Name its'
            ' folder.'
        )
    try:
        rows = csv_files.read_csv(path)
    except UnusableFile as error:
        raise StudyError(f'--from: {error} Take the published file.') from error
    if not rows or not rows[0].get('name'):
        raise StudyError(
            f'{path}: expected a table of runs with the column name, got none. Name another folder.'
        )
    try:
        return {row['name']: _result(row) for row in rows}
    except ValueError as error:
        raise StudyError(
            f'{path}: expected a number, got {error}. Take the published file.'
        ) from error


def _result(row: dict[str, str]) -> dict[str, Any]:
    """Convert a row to the content of `result.json`, without empty cells."""
    result: dict[str, Any] = {}
    types = get_type_hints(StudyRun)
    for column, text in row.items():
        field, _, name = column.partition('.')
        if not text or field not in types:
            continue
        if name:
            kind = _item_type(field, name)
            result.setdefault(field, {})[name] = kind(text)
        else:
            # Optional numbers are floats.
            kind = types[field] if types[field] in (int, str) else float
            result[field] = kind(text)
    return result


def _item_type(field: str, name: str) -> type:
    """Type of an item of a mapping."""
    if field in _NUMBERS:
        return float
    return int if name in ('threads', 'cpus') else str

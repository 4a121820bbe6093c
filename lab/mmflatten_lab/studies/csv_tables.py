"""CSV tables of runs, which reports write, and which reports and further studies can be made
from.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, get_type_hints

from mmflatten import tables
from mmflatten.files import UnusableFile
from mmflatten_lab.studies.runs import StudyRun
from mmflatten_lab.studies.study_fields import StudyError

_NUMBERS = ('metrics', 'validations')  # mappings whose values are numbers; other mappings hold text


def write_csv(runs: Sequence[StudyRun], path: Path) -> None:
    """Write one row per run, with a column for every item of a mapping."""
    rows = []
    for run in runs:
        row = {}
        for key, value in run.result().items():
            row.update(
                {f'{key}.{name}': item for name, item in value.items()}
                if isinstance(value, dict)
                else {key: value}
            )
        rows.append(row)
    header = list(dict.fromkeys(column for row in rows for column in row))
    tables.write_csv(path, header, [[_known(row.get(column)) for column in header] for row in rows])


def _known(value: Any) -> Any:
    """Return None, an empty cell, for NaN."""
    return None if value != value else value


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
        rows = tables.read_csv(path)
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
            value = float(text) if field in _NUMBERS else int(text) if name == 'threads' else text
            result.setdefault(field, {})[name] = value
        else:
            result[field] = (
                int(text) if types[field] is int else text if types[field] is str else float(text)
            )
    return result

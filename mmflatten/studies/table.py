"""The table of results in SQLite, written by the driver alone; it can always be made again from the runs' own files."""
from __future__ import annotations

import contextlib
import json
import sqlite3
from collections.abc import Iterable
from dataclasses import asdict, fields
from pathlib import Path

from mmflatten.studies.folder import Result, StudyFolder
from mmflatten.studies.study import StudyError

NAME = 'results.sqlite'
COLUMNS = tuple(item.name for item in fields(Result))
_KINDS = {'str': 'TEXT', 'float': 'REAL', 'float | None': 'REAL', 'int': 'INTEGER'}  # all else is JSON


class Table:
    """One row for each run. Mappings are columns of JSON, which SQLite's `json_extract` reads."""

    def __init__(self, folder: StudyFolder) -> None:
        folder.path.mkdir(parents=True, exist_ok=True)
        self.connection = sqlite3.connect(folder.path / NAME)
        self.connection.execute('PRAGMA journal_mode=WAL')
        self._create()

    def _create(self) -> None:
        columns = ', '.join(f'{item.name} {_KINDS.get(str(item.type), "JSON")}' for item in fields(Result))
        self.connection.execute(f'CREATE TABLE IF NOT EXISTS runs ({columns}, PRIMARY KEY (name))')

    def rebuild(self, results: Iterable[Result]) -> None:
        """Hold these rows and no others, whatever columns there were before."""
        with self.connection:
            self.connection.execute('BEGIN')  # a reader sees the table as it was until all is there
            self.connection.execute('DROP TABLE runs')
            self._create()
            self._put(results)

    def put(self, *results: Result) -> None:
        """Add rows, or replace those of the same name."""
        with self.connection:
            self._put(results)

    def _put(self, results: Iterable[Result]) -> None:
        marks = ', '.join('?' * len(COLUMNS))
        self.connection.executemany(f'INSERT OR REPLACE INTO runs VALUES ({marks})', map(_row, results))

    def close(self) -> None:
        self.connection.close()


def read_table(path: Path) -> list[Result]:
    """All rows of a study folder, which another process may be writing.

    Raises:
        StudyError: the study has not begun.
    """
    if not (path / NAME).exists():
        raise StudyError(f'study folder {path} has no {NAME}: the study has not begun')
    with contextlib.closing(sqlite3.connect(f'{(path / NAME).absolute().as_uri()}?mode=ro', uri=True)) as connection:
        connection.row_factory = sqlite3.Row
        rows = connection.execute('SELECT * FROM runs').fetchall()
    return [_result(row) for row in rows]


def _row(result: Result) -> list:
    return [json.dumps(value) if isinstance(value, dict) else value for value in asdict(result).values()]


def _result(row: sqlite3.Row) -> Result:
    kinds = {item.name: str(item.type) for item in fields(Result)}
    return Result(**{name: json.loads(value) if kinds[name].startswith('dict') and value is not None else value
                     for name, value in zip(row.keys(), row) if name in kinds})

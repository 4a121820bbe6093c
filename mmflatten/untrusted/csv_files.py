"""CSV files of all commands: one writer, whose cells a spreadsheet shows and never runs, and its
reader.
"""

import csv
import os
import re
from collections.abc import Iterable, Sequence
from io import StringIO
from typing import Any

from mmflatten.untrusted.files import UnusableFile, read_text

# What a spreadsheet takes for the beginning of a formula, also in full width (OWASP, "CSV
# Injection"). An apostrophe before it makes it text; one that was there before gets another, so
# that `plain` can take it away again.
_FORMULA = re.compile("'*[=+\\-@\t\r\n\uff1d\uff0b\uff0d\uff20]")
_NUMBER = re.compile(r'[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?|[-+]?(nan|inf)')
# A spreadsheet takes a semicolon or a tab for the end of a cell, too, depending on the language of
# its user. What follows would begin a cell, unless it is quoted.
_SEPARATORS = re.compile('[;\t\r\n]')
# surrogates that do not stand for a byte of a file name
_NO_BYTE = re.compile('[\ud800-\udc7f\udd00-\udfff]')


def csv_line(cells: Iterable[Any]) -> str:
    """Return a line of a CSV file, with its line end.

    Args:
        cells: text, or values that are written as their text; None is an empty cell. Text that is
            a number, such as -0.5, stays one.
    """
    texts = [_cell(value) for value in cells]
    buffer = StringIO()
    # By itself, the library quotes for commas and quotes only.
    if any(_SEPARATORS.search(text) for text in texts):
        writer = csv.writer(buffer, lineterminator='\n', quoting=csv.QUOTE_ALL)
    else:
        writer = csv.writer(buffer, lineterminator='\n')
    writer.writerow(texts)
    return buffer.getvalue()


def write_csv(
    path: str | os.PathLike, header: Sequence[str], rows: Iterable[Iterable[Any]]
) -> None:
    """Write a table. Names of files that are not UTF-8 keep their bytes."""
    with open(path, 'w', encoding='utf-8', errors='surrogateescape', newline='') as file:
        file.write(csv_line(header))
        file.writelines(map(csv_line, rows))


def read_csv(path: str | os.PathLike) -> list[dict[str, str]]:
    """Read a table of `write_csv` with UTF-8 text: for each row the text of each cell, by its
    column.

    Raises:
        FileNotFoundError: the file does not exist.
        UnusableFile: it is no regular file, no UTF-8, or no table. The message begins with its
            path.
    """
    lines = StringIO(read_text(path), newline='')
    rows = []
    try:
        for row in csv.reader(lines):
            if row:
                rows.append([plain(cell) for cell in row])
    except csv.Error as error:
        raise UnusableFile(f'{path}: expected a CSV file, got {error}.') from error
    header = rows[0] if rows else []
    for number, row in enumerate(rows[1:], 1):
        if len(row) != len(header):
            raise UnusableFile(
                f'{path}: expected {len(header)} cells in row {number}, got {len(row)}.'
            )
    return [dict(zip(header, row)) for row in rows[1:]]


def plain(cell: str) -> str:
    """Return the text that was written to a cell."""
    return cell[1:] if cell.startswith("'") and _FORMULA.match(cell) else cell


def _cell(value: Any) -> str:
    if value is None:
        return ''
    text = str(value)
    text = _NO_BYTE.sub(lambda found: found[0].encode('unicode_escape').decode(), text)
    if _FORMULA.match(text) and not _NUMBER.fullmatch(text):
        text = f"'{text}"
    return text

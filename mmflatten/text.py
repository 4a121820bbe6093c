"""Text for people: lists cut short, tables, and names of unknown origin made printable."""

from collections.abc import Collection, Iterable, Sequence
from typing import Any, TextIO

Row = Sequence[str]
# Joiners that Persian and Indic words and emoji need, and wide spaces. Python calls none of them
# printable.
_KEPT = '\u200c\u200d\u00a0\u3000'


def printable(text: str, keep: str = '') -> str:
    """Escape characters that would steer a terminal or reorder a line: controls, bidi marks, lone
    surrogates.

    Args:
        keep: characters that are left as they are, such as line breaks.
    """
    if text.isprintable():
        return text
    kept = _KEPT + keep
    chars = []
    for char in text:
        if not char.isprintable() and char not in kept:
            char = char.encode('unicode_escape').decode()
        chars.append(char)
    return ''.join(chars)


class OutputClosed(BrokenPipeError):
    """Whoever read what a command prints has stopped, as `head` does."""


class Escaped:
    """A text stream on which nothing but line breaks, tabs and progress bars moves the cursor (see
    `printable`).

    A bar begins each write with a carriage return; anywhere else it is escaped.

    Args:
        limit: characters of a line, which is cut there.

    `write` and `flush` raise OutputClosed if nobody reads the stream any more.
    """

    def __init__(self, stream: TextIO, limit: int | None = None) -> None:
        self.stream: TextIO = stream.stream if isinstance(stream, Escaped) else stream
        self.limit = limit

    def write(self, text: str) -> int:
        lines = [clip(line, self.limit or len(line)) for line in text.split('\n')]
        start = lines[0][:1] if text.startswith('\r') else ''
        shown = start + printable('\n'.join(lines)[len(start) :], keep='\n\t')
        try:
            self.stream.write(shown)
        except BrokenPipeError as error:
            raise OutputClosed(*error.args) from error
        return len(text)

    def flush(self) -> None:
        try:
            self.stream.flush()
        except BrokenPipeError as error:
            raise OutputClosed(*error.args) from error

    def writelines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


def clip(text: str, limit: int = 60) -> str:
    """Cut a text that is longer than `limit` characters, with an ellipsis."""
    return text if len(text) <= limit else f'{text[: limit - 1]}…'


def figure_text(name: str) -> str:
    """A name as Matplotlib draws it: printable, short, and a dollar does not begin a formula."""
    return clip(printable(name), 40).replace('$', r'\$')


def shorten(names: Collection[str], limit: int = 4) -> str:
    """Return the first names and the number of the others, for a message."""
    text = ', '.join(list(names)[:limit])
    return f'{text} and {len(names) - limit} more' if len(names) > limit else text


def align(rows: Sequence[Row], header: Row, left: Collection[int], markdown: bool = False) -> str:
    """Align rows of cells under a header; columns not in `left` are right-aligned."""
    widths = [max(map(len, column)) for column in zip(header, *rows)]
    lines = []
    for cells in (header, _dashes(widths, left, markdown), *rows):
        padded = _pad(cells, widths, left)
        lines.append(f'| {" | ".join(padded)} |' if markdown else '  '.join(padded).rstrip())
    return '\n'.join(lines)


def _dashes(widths: Sequence[int], left: Collection[int], markdown: bool) -> list[str]:
    """Return the cells of the line below the header."""
    dashes = []
    for column, width in enumerate(widths):
        if markdown and column not in left:
            dashes.append('-' * (width - 1) + ':')  # a colon aligns the column to the right
        else:
            dashes.append('-' * width)
    return dashes


def _pad(cells: Row, widths: Sequence[int], left: Collection[int]) -> list[str]:
    padded = []
    for column, (cell, width) in enumerate(zip(cells, widths)):
        padded.append(cell.ljust(width) if column in left else cell.rjust(width))
    return padded


def giga(operations: int) -> str:
    """Format operations in 1e9 with four significant digits and at most three decimals."""
    value = operations / 1e9
    decimals = 3 if value < 10 else 2
    return f'{value:.{decimals}f}' if value < 100 else f'{value:.1f}'

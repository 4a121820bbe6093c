"""Tables of text, aligned or in Markdown."""
from __future__ import annotations

from collections.abc import Collection, Sequence

Row = Sequence[str]


def align(rows: Sequence[Row], header: Row, left: Collection[int], markdown: bool = False) -> str:
    """Lay out rows of cells under a header; columns outside `left` are aligned to the right."""
    widths = [max(len(row[column]) for row in (header, *rows)) for column in range(len(header))]

    def line(cells: Row) -> str:
        padded = [cell.ljust(width) if column in left else cell.rjust(width)
                  for column, (cell, width) in enumerate(zip(cells, widths))]
        return f'| {" | ".join(padded)} |' if markdown else '  '.join(padded).rstrip()

    dashes = ['-' * width if column in left or not markdown else '-' * (width - 1) + ':'
              for column, width in enumerate(widths)]
    return '\n'.join(map(line, (header, dashes, *rows)))


def giga(operations: int) -> str:
    """Operations in 1e9 with four significant digits, three decimals at most."""
    value = operations / 1e9
    return f'{value:.{3 if value < 10 else 2 if value < 100 else 1}f}'

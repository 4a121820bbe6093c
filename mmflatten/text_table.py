"""Text tables, aligned or in Markdown."""
from collections.abc import Collection, Sequence

Row = Sequence[str]


def align(rows: Sequence[Row], header: Row, left: Collection[int], markdown: bool = False) -> str:
    """Align rows of cells under a header; columns not in `left` are right-aligned."""
    widths = [max(len(row[column]) for row in (header, *rows)) for column in range(len(header))]

    def line(cells: Row) -> str:
        padded = [cell.ljust(width) if column in left else cell.rjust(width)
                  for column, (cell, width) in enumerate(zip(cells, widths))]
        return f'| {" | ".join(padded)} |' if markdown else '  '.join(padded).rstrip()

    dashes = ['-' * width if column in left or not markdown else '-' * (width - 1) + ':'
              for column, width in enumerate(widths)]
    return '\n'.join(map(line, (header, dashes, *rows)))


def giga(operations: int) -> str:
    """Format operations in 1e9 with four significant digits and at most three decimals."""
    value = operations / 1e9
    decimals = 3 if value < 10 else 2
    return f'{value:.{decimals}f}' if value < 100 else f'{value:.1f}'

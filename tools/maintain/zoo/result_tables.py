"""Results as Markdown tables, one for each table of a paper."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from zoo.names import ACCURACIES, DATASETS, PAPERS, TASKS, model_name, place
from zoo.records import ZooEntry, printed_accuracies

from mmflatten.text import align, giga


def render_tables(entries: Sequence[ZooEntry], root: str) -> str:
    """Render tables with headings: papers in the order of `PAPERS`, their tables by number, then
    their figures.

    Args:
        root: path from the page to the root of the repository, such as '../'.
    """
    tables: defaultdict[str, list[ZooEntry]] = defaultdict(list)
    for entry in sorted(entries, key=table_order):
        tables[_title(entry)].append(entry)
    parts = []
    for title, group in tables.items():
        parts += [f'## {title}', _table(group, root)]
    return '\n\n'.join(parts)


def table_order(entry: ZooEntry) -> tuple[int, bool, int, str]:
    """Sort key: papers as in `PAPERS`, their tables by number, then their figures."""
    paper, table = entry.row.cells['paper'], entry.row.cells['table']
    digits = ''.join(filter(str.isdigit, table))
    return list(PAPERS).index(paper), table.startswith('fig'), int(digits or 0), table


def linked_model(entry: ZooEntry, root: str) -> str:
    """Return the model's name, as a link to its config if there is one."""
    cells = entry.row.cells
    name = model_name(cells)
    return f'[{name}]({root}{cells["config"]})' if cells['config'] else name


def _title(entry: ZooEntry) -> str:
    cells = entry.row.cells
    if not cells['paper']:
        return f'{TASKS.get(cells["task"], "")}: {PAPERS[""].lower()}'
    return f'{place(cells)}: {DATASETS[cells["dataset"]]}'


def _table(group: Sequence[ZooEntry], root: str) -> str:
    # Configs of this project have no paper's number.
    shown = 3 if any(entry.row.cells['paper'] for entry in group) else 1
    header = [
        'model',
        'image',
        *('params (M)', "paper's", 'diff')[:shown],
        'MACs (G)',
        *('FLOPs (G)', "paper's", 'diff')[:shown],
    ]
    accuracies = printed_accuracies(group)
    header += [f"paper's {ACCURACIES[name]}" for name in accuracies]
    rows = []
    for entry in group:
        row = [
            linked_model(entry, root),
            entry.image or '-',
            *entry.params_cells(2)[:shown],
            giga(entry.macs) if entry.is_counted else '-',
            *entry.flops_cells()[:shown],
        ]
        row += [entry.row.cells[name] or '-' for name in accuracies]
        rows.append(row)
    return align(rows, header, {0}, markdown=True)

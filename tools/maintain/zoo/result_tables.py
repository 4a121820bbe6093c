"""The papers' results as Markdown tables, a table of the paper each."""
from __future__ import annotations

from collections.abc import Sequence

from zoo.names import ACCURACIES, DATASETS, PAPERS, TASKS, model_name, place
from zoo.records import ZooEntry

from mmflatten.text_table import align, giga


def render_tables(entries: Sequence[ZooEntry], root: str) -> str:
    """Tables under their headings, papers in the order of `PAPERS`, their tables by number, then their figures.

    Args:
        root: of the repository, seen from the page: '../'.
    """
    entries = sorted(entries, key=table_order)
    parts = []
    for name in dict.fromkeys(map(_title, entries)):
        parts += [f'## {name}', _table([entry for entry in entries if _title(entry) == name], root)]
    return '\n\n'.join(parts)


def table_order(entry: ZooEntry) -> tuple[int, bool, int, str]:
    """Key that sorts papers as in `PAPERS`, their tables by number, then their figures."""
    paper, table = entry.row.cells['paper'], entry.row.cells['table']
    digits = ''.join(filter(str.isdigit, table))
    return list(PAPERS).index(paper), table.startswith('fig'), int(digits or 0), table


def linked_model(entry: ZooEntry, root: str) -> str:
    """The model's name, which links to its config if there is one."""
    cells = entry.row.cells
    return f'[{model_name(cells)}]({root}{cells["config"]})' if cells['config'] else model_name(cells)


def _title(entry: ZooEntry) -> str:
    cells = entry.row.cells
    if not cells['paper']:
        return f'{TASKS.get(cells["task"], "")}: {PAPERS[""].lower()}'
    return f'{place(cells)}: {DATASETS[cells["dataset"]]}'


def _table(group: Sequence[ZooEntry], root: str) -> str:
    given = [name for name in ACCURACIES if any(entry.row.cells[name] for entry in group)]
    # Figures of our own configs have no paper's number beside them.
    shown = 3 if any(entry.row.cells['paper'] for entry in group) else 1
    header = ('model', 'image', *('params (M)', "paper's", 'diff')[:shown], 'MACs (G)',
              *('FLOPs (G)', "paper's", 'diff')[:shown], *(f"paper's {ACCURACIES[name]}" for name in given))
    rows = [(linked_model(entry, root), entry.image or '-',
             *entry.params_cells(2)[:shown], giga(entry.macs) if entry.counted else '-', *entry.flops_cells()[:shown],
             *(entry.row.cells[name] or '-' for name in given)) for entry in group]
    return align(rows, header, {0}, markdown=True)

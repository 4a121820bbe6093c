"""HTML table of the rows of docs/model_zoo.csv, with filters for docs/assets/zoo_table.js."""

from collections.abc import Callable, Iterable, Mapping
from html import escape
from pathlib import PurePosixPath

from zoo.names import ACCURACIES, FAMILIES, TASKS, model_name, place
from zoo.records import ZooEntry

AGREEMENT = {
    'yes': 'agrees',
    'unit': 'one unit off',
    'near': 'within 2 %',
    'no': 'differs',
    '': 'not printed',
}
# Title of a column -> True if its values are numbers.
COLUMNS = {
    'model': False,
    'family': False,
    'task': False,
    'attention': False,
    "paper's table": False,
    'image': False,
    'params (M)': True,
    "paper's params": True,
    'FLOPs (G)': True,
    "paper's FLOPs": True,
    'agreement': False,
    "paper's accuracy": True,
}
FILTERS = ('family', 'task', 'attention', 'agreement')


def _cells(entry: ZooEntry) -> dict[str, str]:
    """Return the config and the cells by column title; a missing number is ''."""
    row = entry.row.cells
    accuracies = [f'{row[name]} {title}' for name, title in ACCURACIES.items() if row[name]]
    params, paper_params, _ = entry.params_cells(2)
    flops, paper_flops, _ = entry.flops_cells()
    return {
        'config': row['config'],
        'model': model_name(row),
        'family': FAMILIES.get(PurePosixPath(row['config']).parent.name, ('', ''))[0],
        'task': TASKS.get(row['task'], ''),
        'attention': entry.attention or 'none',
        "paper's table": place(row) if row['paper'] else '',
        'image': entry.image,
        'params (M)': params.strip('-'),
        "paper's params": paper_params.strip('-'),
        'FLOPs (G)': flops.strip('-'),
        "paper's FLOPs": paper_flops.strip('-'),
        'agreement': AGREEMENT[entry.agrees],
        "paper's accuracy": ', '.join(accuracies),
    }


def render_table(entries: Iterable[ZooEntry], address: Callable[[str], str]) -> str:
    """Render the filters and the table.

    Args:
        address: converts the path of a config in the repository to its address in the site.
    """
    rows = list(map(_cells, entries))
    head = ''.join(map(_heading, COLUMNS))
    body = '\n'.join(_row(row, address) for row in rows)
    filters = '<label>model <input type="search" name="model"></label>'
    filters += ''.join(_filter(title, rows) for title in FILTERS)
    return f"""<div class="zoo">
<form hidden aria-label="Filters of the table">{filters}
<button type="reset">Show all</button></form>
<p role="status">{len(rows)} of {len(rows)} rows</p>
<div class="zoo-scroll" tabindex="0" role="region" aria-label="Model zoo">
<table class="zoo-table"><thead><tr>{head}</tr></thead><tbody>
{body}
</tbody></table></div></div>"""


def _heading(title: str) -> str:
    button = f'<button type="button">{escape(title)}</button>'
    return f'<th scope="col"{_number(title)} aria-sort="none">{button}'


def _filter(title: str, rows: Iterable[Mapping[str, str]]) -> str:
    values: set[str] = set()
    for row in rows:
        values.update(row[title].split(', '))
    values.discard('')
    options = ''.join(f'<option>{escape(value)}</option>' for value in sorted(values))
    return (
        f'<label>{title} <select name="{title}"><option'
        f' value="">all</option>{options}</select></label>'
    )


def _row(row: Mapping[str, str], address: Callable[[str], str]) -> str:
    model = escape(row['model'])
    if row['config']:
        model = f'<a href="{address(row["config"])}">{model}</a>'
    cells = [f'<td>{model}</td>']
    for title in COLUMNS:
        if title != 'model':
            cells.append(f'<td{_number(title)}>{escape(row[title])}</td>')
    return f'<tr>{"".join(cells)}</tr>'


def _number(title: str) -> str:
    return ' class="number"' if COLUMNS[title] else ''

"""HTML table of the rows of docs/model_zoo.csv, with filters for docs/assets/zoo_table.js."""
import csv
from collections.abc import Callable, Iterable, Mapping
from html import escape
from pathlib import Path, PurePosixPath

from zoo.names import ACCURACIES, FAMILIES, TASKS, model_name, place

from mmflatten.measure.papers.tables import PaperRow
from mmflatten.text import giga

AGREEMENT = {'yes': 'agrees', 'unit': 'one unit off', 'near': 'within 2 %', 'no': 'differs', '': 'not printed'}
# Title of a column -> True if its values are numbers.
COLUMNS = {'model': False, 'family': False, 'task': False, 'attention': False, "paper's table": False, 'image': False,
           'params (M)': True, "paper's params": True, 'FLOPs (G)': True, "paper's FLOPs": True, 'agreement': False,
           "paper's accuracy": True}
FILTERS = ('family', 'task', 'attention', 'agreement')


def read_rows(file: Path) -> list[dict[str, str]]:
    """Read the rows of the CSV, and add the cells of the table by column title."""
    with file.open(newline='', encoding='utf-8') as stream:
        return [{**row, **_cells(row)} for row in csv.DictReader(stream)]


def _cells(row: Mapping[str, str]) -> dict[str, str]:
    accuracies = [f'{row[f"paper_{name}"]} {title}' for name, title in ACCURACIES.items() if row[f'paper_{name}']]
    same_size = row['image'] == row['paper_flops_input_hw']
    star = '' if PaperRow(dict(row)).with_products else '*'
    return {'model': model_name(row), 'family': FAMILIES.get(PurePosixPath(row['config']).parent.name, ('', ''))[0],
            'task': TASKS.get(row['task'], ''), 'attention': row['attention'] or 'none',
            "paper's table": place(row) if row['paper'] else '', 'image': row['image'],
            'params (M)': f'{int(row["params"]) / 1e6:.2f}' if row['params'] else '',
            "paper's params": row['paper_params_m'],
            'FLOPs (G)': giga(int(row['flops'])) + star if row['flops'] else '',
            "paper's FLOPs": row['paper_flops_g'] if same_size else '',
            'agreement': AGREEMENT[row['agrees']], "paper's accuracy": ', '.join(accuracies)}


def render_table(rows: Iterable[Mapping[str, str]], address: Callable[[str], str]) -> str:
    """Render filters and table.

    Args:
        rows: result of `read_rows`.
        address: converts a config's path in the repository to its address in the site.
    """
    rows = list(rows)
    head = ''.join(f'<th scope="col"{_number(title)} aria-sort="none"><button type="button">{escape(title)}</button>'
                   for title in COLUMNS)
    body = '\n'.join(_row(row, address) for row in rows)
    filters = ''.join(_filter(title, rows) for title in FILTERS)
    return f"""<div class="zoo">
<form hidden aria-label="Filters of the table"><label>model <input type="search" name="model"></label>{filters}
<button type="reset">Show all</button></form>
<p role="status">{len(rows)} of {len(rows)} rows</p>
<div class="zoo-scroll" tabindex="0" role="region" aria-label="Model zoo">
<table class="zoo-table"><thead><tr>{head}</tr></thead><tbody>
{body}
</tbody></table></div></div>"""


def _filter(title: str, rows: Iterable[Mapping[str, str]]) -> str:
    values = sorted({value for row in rows for value in row[title].split(', ') if value})
    options = ''.join(f'<option>{escape(value)}</option>' for value in values)
    return f'<label>{title} <select name="{title}"><option value="">all</option>{options}</select></label>'


def _row(row: Mapping[str, str], address: Callable[[str], str]) -> str:
    link = f'<a href="{address(row["config"])}">{escape(row["model"])}</a>' if row['config'] else escape(row['model'])
    cells = ''.join(f'<td{_number(title)}>{escape(row[title])}</td>' for title in COLUMNS if title != 'model')
    return f'<tr><td>{link}</td>{cells}</tr>'


def _number(title: str) -> str:
    return ' class="number"' if COLUMNS[title] else ''

"""Model zoo as Markdown pages: introduction and differences, results by task, coverage."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from pathlib import Path

from zoo.names import PAPERS, TASKS, place, table_name
from zoo.readmes import render_coverage_by_attention
from zoo.records import ZooEntry, written_by_hand
from zoo.result_tables import linked_model, render_tables, table_order

from mmflatten.text import align

COMMAND = 'python tools/maintain/reproduce_tables.py'
NOTE = f'Written by `{COMMAND}` (without data, weights or a GPU); do not edit.'
GENERATED = 'This page is generated from `docs/model_zoo.csv`.'
TABLE = '<!-- model zoo -->'  # the site inserts the table of all rows here

DIFFERENCES = (
    "Each cause is followed by its rows, with our number and the paper's. A cause that begins with"
    ' *Inference* is our reading\nof the figures and is not stated in the paper.'
)
TASK = """\
# {title}: results of the papers

The columns are explained in the [model zoo](../model_zoo.md). {note}"""
COVERAGE = (
    '# Coverage of the model zoo\n\n'
    'Number of results that each table of the papers prints, number of those in the'
    ' [model zoo](../model_zoo.md) with a\nconfig, and number of results without a config.'
    ' These are listed below with the reason.'
)


def render_pages(entries: Sequence[ZooEntry]) -> dict[str, str]:
    """Render the committed pages: path below `docs/` -> text."""
    introduction = Path(__file__).with_name('introduction.txt').read_text(encoding='utf-8')
    page = introduction.format(
        summary=_summary(entries),
        table=TABLE,
        note=NOTE,
        attentions=render_coverage_by_attention(entries),
    )
    lines = [page, *_differences(sorted(entries, key=table_order))]
    coverage = render_coverage(
        entries,
        printed=written_by_hand('printed_rows'),
        missing=written_by_hand('without_config'),
    )
    return {
        'model_zoo.md': '\n'.join(lines).strip() + '\n',
        'model_zoo/coverage.md': f'{coverage}\n\n{NOTE}\n',
    }


def render_task_page(entries: Sequence[ZooEntry], task: str) -> str:
    """Render the page of a task, with a table for each of the papers' tables."""
    title = TASK.format(title=TASKS[task], note=GENERATED)
    of_task = [entry for entry in entries if entry.row.cells['task'] == task]
    return f'{title}\n\n{render_tables(of_task, "../../")}\n'


def render_coverage(
    entries: Iterable[ZooEntry],
    printed: Sequence[Mapping[str, str]],
    missing: Sequence[Mapping[str, str]],
) -> str:
    """Render the page with the numbers of printed and available results.

    It lists the results without a config with the reason.

    Args:
        printed: `paper`, `table`, number of `results` and `note` of each table.
        missing: `paper`, `table`, `model` and `reason` of each result without a config.
    """
    here = Counter(_table_of(entry.row.cells) for entry in entries if entry.row.config)
    out = Counter(map(_table_of, missing))
    totals: Counter[str] = Counter()
    cells = []
    for row in printed:
        table = _table_of(row)
        counts = {'results': int(row['results']), 'here': here[table], 'no config': out[table]}
        totals.update(counts)
        cells.append((place(row), *map(str, counts.values()), row['note']))
    cells.append(('all', *map(str, totals.values()), ''))
    header = ('table', *totals, 'note')
    parts = [COVERAGE, align(cells, header, {0, 4}, markdown=True)]
    for paper, group in groupby(missing, key=lambda row: row['paper']):
        lines = [f'## Without a config: {PAPERS[paper]}\n']
        for reason, rows in _by_reason(group).items():
            lines.append(f'- {_models(rows)}: {reason}')
        parts.append('\n'.join(lines))
    return '\n\n'.join(parts)


def _table_of(cells: Mapping[str, str]) -> tuple[str, str]:
    return cells['paper'], cells['table']


def _by_reason(missing: Iterable[Mapping[str, str]]) -> dict[str, list[Mapping[str, str]]]:
    """Group results without a config by their reason, in the order of the first of each."""
    groups: defaultdict[str, list[Mapping[str, str]]] = defaultdict(list)
    for row in missing:
        groups[row['reason']].append(row)
    return groups


def _models(missing: Iterable[Mapping[str, str]]) -> str:
    """Group the models by their tables.

    For example: 'ViL-Small; ViL-Base (Table 3, Table 4); ViL-S (Table 9)'.
    """
    tables: defaultdict[str, list[str]] = defaultdict(list)
    for row in missing:
        tables[row['model']].append(table_name(row['table']))
    models: defaultdict[str, list[str]] = defaultdict(list)
    for model, names in tables.items():
        models[', '.join(names)].append(model)
    parts = [f'{"; ".join(group)} ({names})' for names, group in models.items()]
    return '; '.join(parts)


def _summary(entries: Sequence[ZooEntry]) -> str:
    rows = [entry for entry in entries if entry.row.cells['paper']]
    configs = _configs(rows)
    others = _configs(entries) - configs
    verdicts = Counter(entry.agrees for entry in rows)
    with_costs = len(rows) - verdicts['']
    return (
        f'{len(rows)} results with {len(configs)} configs, and {len(others)} configs of our own.'
        f' For {with_costs} of the results the papers print parameters or FLOPs:'
        f' {verdicts["yes"]} agree with ours in all printed digits, {verdicts["unit"]} within one'
        f' unit of the last digit, {verdicts["near"]} within 2 % in FLOPs, and {verdicts["no"]}'
        ' differ by more.'
    )


def _configs(entries: Iterable[ZooEntry]) -> set[str]:
    return {entry.row.config for entry in entries if entry.row.config}


def _differences(entries: Sequence[ZooEntry]) -> list[str]:
    different = [entry for entry in entries if entry.agrees == 'no']
    if not different:
        return []
    lines = ['## What differs', '', DIFFERENCES]
    for paper, rows in groupby(different, key=lambda entry: entry.row.cells['paper']):
        lines += ['', f'### {PAPERS[paper]}: what differs', '']
        by_cause: defaultdict[str, list[ZooEntry]] = defaultdict(list)
        for entry in rows:
            by_cause[entry.row.cause].append(entry)
        for cause, group in by_cause.items():
            lines.append(f'- {cause or "Not found yet."}')
            lines += [f'    - {_difference(entry)}' for entry in group]
    return lines


def _difference(entry: ZooEntry) -> str:
    """Render a row that differs.

    For example: 'Table 8, [pvtv2-b0](...): 3.67 M parameters, the paper 3.4 (+7.8%)'.
    """
    numbers = []
    if entry.params_agree == 'no':
        ours, printed, percent = entry.params_cells(decimals=2)
        numbers.append(f'{ours} M parameters, the paper {printed} ({percent})')
    if entry.flops_agree == 'no':
        ours, printed, percent = entry.flops_cells()
        numbers.append(f'{ours} G FLOPs, the paper {printed} ({percent})')
    table = table_name(entry.row.cells['table'])
    return f'{table}, {linked_model(entry, "../")}: {"; ".join(numbers)}'

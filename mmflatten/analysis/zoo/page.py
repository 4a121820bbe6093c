"""The model zoo as a Markdown page: what does not agree first, then every table of every paper."""
from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from pathlib import PurePosixPath

from mmflatten.analysis.text_table import align, giga
from mmflatten.analysis.zoo.rows import ZooEntry

PAPERS = {'flatten': 'FLatten Transformer', 'l2vit': 'L2ViT', 'focal': 'Focal Transformer',
          'factorized': 'Factorized Attention', '': 'Configs that no paper has'}
ACCURACIES = {'top1': 'top-1 (%)', 'ap_box': 'box AP', 'ap_mask': 'mask AP', 'miou': 'mIoU',
              'miou_ms': 'mIoU, multi-scale', 'macc': 'mAcc', 'epe': 'EPE (px)'}
COMMAND = 'python tools/analysis/reproduce_tables.py'

INTRODUCTION = f"""\
# Model zoo

Written by `{COMMAND}` (without data, weights or a GPU); do not edit.
The same data for a spreadsheet: [model_zoo.csv](model_zoo.csv).

- **Accuracy is the papers' own.** None on this page was measured by this project, which has trained none of these
  models. (It has trained those for the digit scenes; their configs say in the first lines what came out.)
- **Parameters, MACs, FLOPs** are counted from the configs, for one image of the given size. *MACs* are
  multiply-accumulates, products of activations (attention) included. *FLOPs* are the same run counted as the row's
  paper counts: MACs and elementwise norms, resizing and average pooling, as OpenMMLab's `get_flops.py`; where marked
  `*` without products of activations.
- **diff** is ours against the paper's; `~`: ours rounds to what is printed, up or down. A row agrees if its parameters
  do, and if its FLOPs differ by 2 % at most.
"""


def render_page(entries: Sequence[ZooEntry]) -> str:
    """The whole page."""
    parts = [INTRODUCTION, _summary(entries), _disagreements(entries), _without_config(entries)]
    for paper, group in groupby(entries, key=lambda entry: entry.row.cells['paper']):
        parts.append(f'## {PAPERS[paper]}')
        parts += _tables(list(group), by='table' if paper else 'task')
    return '\n\n'.join(part.strip() for part in parts if part) + '\n'


def render_tables(entries: Sequence[ZooEntry]) -> str:
    """Only the tables, for some of the rows."""
    return '\n\n'.join(_tables(entries, by='table'))


def _summary(entries: Sequence[ZooEntry]) -> str:
    rows = [entry for entry in entries if entry.row.cells['paper']]
    verdicts = [entry.agrees for entry in rows if entry.row.config]
    configs = {entry.row.config for entry in entries if entry.row.config}
    return (f"{len(rows)} rows of the papers' tables; {len(verdicts)} have a config: {verdicts.count(True)} agree in "
            f'parameters and FLOPs, {verdicts.count(False)} do not, and for {verdicts.count(None)} the paper prints '
            f'neither. {len(configs)} configs.')


def _disagreements(entries: Sequence[ZooEntry]) -> str:
    header = ('table', 'model', 'params (M)', "paper's", 'diff', 'FLOPs (G)', "paper's", 'diff', 'cause')
    rows = [(_table_of(entry), _link(entry, _model(entry)), *entry.params_cells(2), *entry.flops_cells(),
             entry.row.cause or 'not found yet') for entry in entries if entry.agrees is False]
    return f'## Rows that do not agree\n\n{align(rows, header, {0, 1, 8}, markdown=True)}' if rows else ''


def _without_config(entries: Sequence[ZooEntry]) -> str:
    rows = [(_table_of(entry), _model(entry),
             'could not be counted' if entry.row.config else entry.row.cause or 'not written yet')
            for entry in entries if not entry.counted]
    table = align(rows, ('table', 'model', 'why'), {0, 1, 2}, markdown=True)
    return f'## Rows without a model\n\n{table}' if rows else ''


def _table_of(entry: ZooEntry) -> str:
    return f'{PAPERS[entry.row.cells["paper"]]}, {table_name(entry.row.cells["table"])}'


def _tables(entries: Sequence[ZooEntry], by: str) -> list[str]:
    parts = []
    # A table's rows follow each other in the file, but for figures between them.
    for name in dict.fromkeys(entry.row.cells[by] for entry in entries):
        group = [entry for entry in entries if entry.row.cells[by] == name]
        subjects = dict.fromkeys(f'{entry.row.cells["task"]} on {entry.row.cells["dataset"]}' for entry in group)
        title = name.capitalize() if by == 'task' else f'{table_name(name)}: {", ".join(subjects)}'
        parts += [f'### {title}', _table(group)]
    return parts


def table_name(table: str) -> str:
    """'Table 2a' or 'Figure 5' for '2a' or 'fig5'."""
    return f'Figure {table[3:]}' if table.startswith('fig') else f'Table {table}'


def _table(group: Sequence[ZooEntry]) -> str:
    given = [name for name in ACCURACIES if any(entry.row.cells[name] for entry in group)]
    # Figures of our own configs have no paper's number beside them.
    shown = 3 if any(entry.row.cells['paper'] for entry in group) else 1
    header = ('model', 'config', 'image', *('params (M)', "paper's", 'diff')[:shown], 'MACs (G)',
              *('FLOPs (G)', "paper's", 'diff')[:shown], *(f"paper's {ACCURACIES[name]}" for name in given))
    rows = [(_model(entry), _link(entry, 'config') if entry.row.config else '-', entry.image or '-',
             *entry.params_cells(2)[:shown], giga(entry.macs) if entry.counted else '-', *entry.flops_cells()[:shown],
             *(entry.row.cells[name] or '-' for name in given)) for entry in group]
    return align(rows, header, {0, 1}, markdown=True)


def _model(entry: ZooEntry) -> str:
    cells = entry.row.cells
    if not cells['paper']:
        return PurePosixPath(cells['config']).stem
    method = '' if cells['method'] in ('-', cells['backbone']) else f', {cells["method"]}'
    schedule = '' if cells['schedule'] in ('300e', '') else f', {cells["schedule"]}'
    return f'{cells["backbone"]}{method}{schedule}'


def _link(entry: ZooEntry, text: str) -> str:
    return f'[{text}](../{entry.row.config})' if entry.row.config else text

"""A README for each folder of configs: the paper, its results beside the counted costs, and the
commands.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import PurePosixPath

from zoo.metafiles import PAPERS
from zoo.names import ACCURACIES, FAMILIES, TASKS, place
from zoo.records import ZooEntry, by_config, by_folder, printed_accuracies

from mmflatten.text import align, giga

MARK = '<!-- Written by `python tools/maintain/reproduce_tables.py`; do not edit. -->'
NOTE = (
    'Accuracies are those that the papers print in the tables of the last column; this project has'
    ' not trained these models.\nParameters and multiply-accumulates (MACs) are counted for one'
    ' image of the given size.'
)
OWN = (
    'The first lines of a config name its source, if there is one, and say whether this project has'
    ' run it.'
)


def render_readmes(entries: Sequence[ZooEntry]) -> dict[str, str]:
    """Render every README: path in the repository -> text."""
    files = {}
    for folder, group in by_folder(entry for entry in entries if entry.row.config):
        files[f'{folder}/README.md'] = _readme(PurePosixPath(folder).name, group)
    return files


def _readme(family: str, entries: list[ZooEntry]) -> str:
    name, paper = FAMILIES.get(family, (family, None))
    parts = [f'# {name}', MARK]
    if paper:
        parts.append(f'> [{PAPERS[paper]["Title"]}]({PAPERS[paper]["URL"]})')
    parts.append(NOTE if any(map(_has_accuracy, entries)) else OWN)
    configs = [entry.row.config for entry in entries]
    example = PurePosixPath(min(configs, key=len))
    parts.append(
        f'```shell\nmmflatten train {example}\nmmflatten test {example} CHECKPOINT\n'
        f'mmflatten flops {example.parent}/*.py\n```'
    )
    for task, title in TASKS.items():
        rows = [entry for entry in entries if entry.row.cells['task'] == task]
        if rows:
            parts.append(f'## {title}\n\n{_table(rows)}')
    return '\n\n'.join(parts) + '\n'


def _has_accuracy(entry: ZooEntry) -> bool:
    return any(entry.row.cells[column] for column in ACCURACIES)


def _table(entries: list[ZooEntry]) -> str:
    """Render a row for each config, with the results of all tables that print it.

    Columns without a result are left out.
    """
    task = entries[0].row.cells['task']
    columns = printed_accuracies(entries)
    if task == 'classification':
        columns = [name for name in columns if name == 'top1']
    header = ['config', 'attention', 'image', 'params (M)', 'MACs (G)']
    header += [ACCURACIES[column] for column in columns]
    left = {0, 1, 2}
    if columns:
        left.add(len(header))
        header.append('source')
    rows = [_row(config, group, columns) for config, group in by_config(entries)]
    return align(rows, header, left, markdown=True)


def _row(config: str, entries: list[ZooEntry], columns: list[str]) -> list[str]:
    first = entries[0]
    file = PurePosixPath(config)
    row = [f'[{file.stem}]({file.name})', first.attention, first.image or '-']
    if first.is_counted:
        row += [f'{first.params / 1e6:.2f}', giga(first.macs)]
    else:
        row += ['-', '-']
    for column in columns:
        row.append(_distinct(' / ', [entry.row.cells[column] for entry in entries]))
    if columns:
        in_papers = [entry.row.cells for entry in entries if entry.row.cells['paper']]
        row.append(_distinct('; ', map(place, in_papers)))
    return row


def _distinct(separator: str, cells: Iterable[str]) -> str:
    """Join the distinct cells that are not empty; '-' if there are none."""
    return separator.join(dict.fromkeys(filter(None, cells))) or '-'


def render_coverage_by_attention(entries: Sequence[ZooEntry]) -> str:
    """Render attention x task: the families whose configs use an attention in a task."""
    families: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
    for entry in entries:
        folder = PurePosixPath(entry.row.config).parent.name
        family = FAMILIES.get(folder, (folder,))[0]
        for attention in filter(None, entry.attention.split(', ')):
            families[attention, entry.row.cells['task']].add(family)
    rows = []
    attentions = {attention for attention, _ in families}
    for attention in sorted(attentions, key=str.lower):
        cells = [', '.join(sorted(families[attention, task])) or '-' for task in TASKS]
        rows.append([attention, *cells])
    header = ['attention', *TASKS.values()]
    return align(rows, header, set(range(len(header))), markdown=True)

"""A README for each folder of configs: the paper, its results beside the counted costs, and the
commands.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from pathlib import PurePosixPath

from zoo.metafiles import PAPERS
from zoo.names import ACCURACIES, FAMILIES, TASKS, place
from zoo.records import ZooEntry

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
    with_config = sorted(
        (entry for entry in entries if entry.row.config), key=lambda entry: entry.row.config
    )
    return {
        f'{folder}/README.md': _readme(PurePosixPath(folder).name, list(group))
        for folder, group in groupby(
            with_config, key=lambda entry: str(PurePosixPath(entry.row.config).parent)
        )
    }


def _readme(family: str, entries: list[ZooEntry]) -> str:
    name, paper = FAMILIES.get(family, (family, None))
    source = [f'> [{PAPERS[paper]["Title"]}]({PAPERS[paper]["URL"]})'] if paper else []
    printed = any(entry.row.cells[column] for entry in entries for column in ACCURACIES)
    example = PurePosixPath(min((entry.row.config for entry in entries), key=len))
    commands = (
        f'```shell\npython tools/train.py {example}\npython tools/test.py {example} CHECKPOINT\n'
        f'python tools/analysis/get_flops.py {example.parent}/*.py\n```'
    )
    tables = [
        f'## {TASKS[task]}\n\n{_table(rows)}'
        for task in TASKS
        if (rows := [entry for entry in entries if entry.row.cells['task'] == task])
    ]
    return (
        '\n\n'.join([f'# {name}', MARK, *source, NOTE if printed else OWN, commands, *tables])
        + '\n'
    )


def _table(entries: list[ZooEntry]) -> str:
    """One row for each config, with the results of all tables that print it, without columns that
    are empty.
    """
    task = entries[0].row.cells['task']
    columns = [
        column
        for column in (('top1',) if task == 'classification' else ACCURACIES)
        if any(entry.row.cells[column] for entry in entries)
    ]
    header = [
        'config',
        'attention',
        'image',
        'params (M)',
        'MACs (G)',
        *map(ACCURACIES.get, columns),
    ]
    rows = []
    for config, group in groupby(
        sorted(entries, key=lambda entry: entry.row.config), lambda entry: entry.row.config
    ):
        found = list(group)
        first, file = found[0], PurePosixPath(config)
        cost = [f'{first.params / 1e6:.2f}', giga(first.macs)] if first.is_counted else ['-', '-']
        results = [
            ' / '.join(dict.fromkeys(filter(None, (entry.row.cells[column] for entry in found))))
            or '-'
            for column in columns
        ]
        sources = '; '.join(
            dict.fromkeys(place(entry.row.cells) for entry in found if entry.row.cells['paper'])
        )
        rows.append(
            [
                f'[{file.stem}]({file.name})',
                first.attention,
                first.image or '-',
                *cost,
                *results,
                *([sources or '-'] if columns else []),
            ]
        )
    left = {0, 1, 2, len(header)}
    return align(rows, [*header, *(['source'] if columns else [])], left, markdown=True)


def render_coverage_by_attention(entries: Sequence[ZooEntry]) -> str:
    """Render attention x task: the families whose configs use an attention in a task."""
    families: dict[tuple[str, str], dict[str, None]] = {}
    for entry in entries:
        for attention in filter(None, entry.attention.split(', ')):
            family = PurePosixPath(entry.row.config).parent.name
            families.setdefault((attention, entry.row.cells['task']), {})[
                FAMILIES.get(family, (family,))[0]
            ] = None
    attentions = sorted({attention for attention, _ in families}, key=str.lower)
    rows = [
        [
            attention,
            *(', '.join(sorted(families.get((attention, task), {}))) or '-' for task in TASKS),
        ]
        for attention in attentions
    ]
    return align(rows, ['attention', *TASKS.values()], set(range(5)), markdown=True)

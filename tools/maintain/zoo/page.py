"""The model zoo as Markdown pages: how to read it, what differs, the results by task, what the papers print besides."""
from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby

from zoo.names import PAPERS, TASKS, place, table_name
from zoo.records import ZooEntry, out_of_reach, printed_results
from zoo.result_tables import linked_model, render_tables, table_order

from mmflatten.text_table import align

COMMAND = 'python tools/maintain/reproduce_tables.py'
NOTE = f'Written by `{COMMAND}` (without data, weights or a GPU); do not edit.'
TABLE = '<!-- model zoo -->'  # the site shows all rows here

INTRODUCTION = """\
# Model zoo

Every result of four papers (FLatten Transformer, L2ViT, Focal Transformer, Factorized Attention) for a model of the
backbones, attentions, detectors and segmentors of this project, and of the attentions since (SLAB to Circulant
Attention) the results that their authors' READMEs print, beside what its config costs here:
{tasks}, a table for each of the papers' tables. [model_zoo.csv](model_zoo.csv) has all rows.
[What is covered](model_zoo/coverage.md) counts the papers' other results and says why they are not here.

{summary}

- **Accuracy is the papers' own.** None in these tables was measured by this project, which has trained none of these
  models. (It has trained those for the digit scenes; their configs say in the first lines what came out.) Figures
  under *notes on the paper* were taken from it by others, and not checked.
- **Parameters, MACs, FLOPs** are counted from the configs, for one image of the given size. *MACs* are
  multiply-accumulates, products of activations (attention) included. *FLOPs* are the same run counted as the row's
  paper counts: MACs and elementwise norms, resizing and average pooling, as OpenMMLab's `get_flops.py`; where marked
  `*` without products of activations.
- **diff** is ours against the paper's. `~`: ours, rounded up or down to as many decimals as the paper prints, is the
  paper's figure (28.29 is `~` of 28 and of 29). Figures with `~` agree, and so do FLOPs within 2 % of the paper's;
  [the others](#what-differs) are listed with their causes.

{table}

{note}
"""
DIFFERENCES = """\
Each cause is followed by its rows: what we count, and what the paper prints. A cause that begins with *Inference* is
our reading of the figures; the paper does not say it."""
TASK = """\
# {title}: the papers' results

The columns are explained in the [model zoo](../model_zoo.md). {note}"""
COVERAGE = """\
# What the model zoo covers

How many results each table of the papers prints, how many of these are in the [model zoo](../model_zoo.md) with a
config, and how many are of models that this project cannot configure, which are listed below with the reason."""


def render_pages(entries: Sequence[ZooEntry]) -> dict[str, str]:
    """Path below `docs/` and text of every page."""
    tasks = {task: [entry for entry in entries if entry.row.cells['task'] == task] for task in TASKS}
    pages = {'model_zoo.md': _main_page(entries, [task for task in tasks if tasks[task]])}
    for task, group in tasks.items():
        if group:
            parts = TASK.format(title=TASKS[task], note=NOTE), render_tables(group, '../../')
            pages[f'model_zoo/{task}.md'] = '\n\n'.join(parts) + '\n'
    pages['model_zoo/coverage.md'] = render_coverage(entries, printed_results(), out_of_reach()) + f'\n\n{NOTE}\n'
    return pages


def _main_page(entries: Sequence[ZooEntry], tasks: Sequence[str]) -> str:
    links = ', '.join(f'[{TASKS[task].lower()}](model_zoo/{task}.md)' for task in tasks)
    page = INTRODUCTION.format(tasks=links, summary=_summary(entries), table=TABLE, note=NOTE)
    return '\n'.join([page, *_differences(sorted(entries, key=table_order))]).strip() + '\n'


def render_coverage(entries: Iterable[ZooEntry], printed: Sequence[Mapping[str, str]],
                    missing: Sequence[Mapping[str, str]]) -> str:
    """The page that counts what the papers print and what is here, and names the models out of reach.

    Args:
        printed: the `paper`, its `table`, the number of `results` in it, and a `note`.
        missing: the `paper`, `table` and `model` of every result that is out of reach, and the `reason`.
    """
    here = Counter((entry.row.cells['paper'], entry.row.cells['table']) for entry in entries if entry.row.config)
    out = Counter((row['paper'], row['table']) for row in missing)
    counts = [(place(row), row['results'], str(here[key]), str(out[key]), row['note'])
              for row in printed for key in [(row['paper'], row['table'])]]
    total = ('all', *(str(sum(int(row[column]) for row in counts)) for column in (1, 2, 3)), '')
    table = align([*counts, total], ('table', 'results', 'here', 'out of reach', 'note'), {0, 4}, markdown=True)
    parts = [COVERAGE, table]
    for paper, group in groupby(missing, key=lambda row: row['paper']):
        rows = list(group)
        lines = [f'- {_models([row for row in rows if row["reason"] == reason])}: {reason}'
                 for reason in dict.fromkeys(row['reason'] for row in rows)]
        parts.append('\n'.join([f'## Out of reach: {PAPERS[paper]}\n', *lines]))
    return '\n\n'.join(parts)


def _models(missing: Iterable[Mapping[str, str]]) -> str:
    """'ViL-Small; ViL-Base (Table 3, Table 4); ViL-S (Table 9)'."""
    tables: dict[str, list[str]] = {}
    for row in missing:
        tables.setdefault(row['model'], []).append(table_name(row['table']))
    models: dict[str, list[str]] = {}
    for model, names in tables.items():
        models.setdefault(', '.join(names), []).append(model)
    return '; '.join(f'{"; ".join(group)} ({names})' for names, group in models.items())


def _summary(entries: Sequence[ZooEntry]) -> str:
    rows = [entry for entry in entries if entry.row.cells['paper']]
    verdicts = Counter(entry.agrees for entry in rows)
    configs = {entry.row.config for entry in rows if entry.row.config}
    own = {entry.row.config for entry in entries if entry.row.config} - configs
    return (f'{len(rows)} results with {len(configs)} configs, and {len(own)} configs of our own. '
            f'For {len(rows) - verdicts[None]} of the results the papers print parameters or FLOPs: '
            f'{verdicts[True]} agree with ours, {verdicts[False]} differ.')


def _differences(entries: Sequence[ZooEntry]) -> list[str]:
    different = [entry for entry in entries if entry.agrees is False]
    lines = ['## What differs', '', DIFFERENCES] if different else []
    for paper, group in groupby(different, key=lambda entry: entry.row.cells['paper']):
        rows = list(group)
        lines += ['', f'### {PAPERS[paper]}: what differs', '']
        for cause in dict.fromkeys(entry.row.cause for entry in rows):
            lines.append(f'- {cause or "Not found yet."}')
            lines += [f'    - {_difference(entry)}' for entry in rows if entry.row.cause == cause]
    return lines


def _difference(entry: ZooEntry) -> str:
    """'Table 8, [pvtv2-b0](...): 3.67 M parameters, the paper 3.4 (+7.8%)'."""
    figures = []
    if entry.row.params_agree(entry.params) is False:
        figures.append(('M parameters', *entry.params_cells(decimals=2)))
    if entry.row.flops_agree(entry.flops) is False:
        figures.append(('G FLOPs', *entry.flops_cells()))
    said = '; '.join(f'{ours} {unit}, the paper {printed} ({percent})' for unit, ours, printed, percent in figures)
    return f'{table_name(entry.row.cells["table"])}, {linked_model(entry, "../")}: {said}'

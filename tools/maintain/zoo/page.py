"""Model zoo as Markdown pages: introduction and differences, results by task, coverage."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby

from zoo.names import PAPERS, TASKS, place, table_name
from zoo.readmes import render_coverage_by_attention
from zoo.records import ZooEntry, written_by_hand
from zoo.result_tables import linked_model, render_tables, table_order

from mmflatten.text import align

COMMAND = 'python tools/maintain/reproduce_tables.py'
NOTE = f'Written by `{COMMAND}` (without data, weights or a GPU); do not edit.'
GENERATED = 'This page is generated from `docs/model_zoo.csv`.'
TABLE = '<!-- model zoo -->'  # the site inserts the table of all rows here

INTRODUCTION = """\
# Model zoo

Every result of four papers (FLatten Transformer, L2ViT, Focal Transformer, Factorized Attention) for a model of this
project or of OpenMMLab's packages ([comparison](../configs/comparison/README.md)), and the results in the READMEs of
later attentions (SLAB to Circulant Attention), next to the cost of its config here. [model_zoo.csv](model_zoo.csv) has
all rows; the site shows them below, and has a page per task with the papers' tables.
[Coverage](model_zoo/coverage.md) counts the papers' other results and says why each has no config.

{summary}

- **Accuracies are printed in the papers.** This project has measured none of them and trained none of these models.
  (It has trained the models for digit scenes; the first lines of their configs give the results.) Figures under *notes
  on the paper* were copied from a paper by others and not checked.
- **Parameters, MACs and FLOPs** are counted from the configs for one image of the given size. *MACs* are
  multiply-accumulates, including products of activations (attention). *FLOPs* follow the convention of the row's paper:
  MACs and elementwise norms, resizing and average pooling, as in OpenMMLab's `get_flops.py`; `*` marks counts without
  products of activations.
- **diff** compares our number with the paper's. `~`: less than one unit of the last printed digit away (28.29 is `~`
  of 28 and of 29). A result *agrees* only if all of its numbers, rounded to the printed digits, are the paper's. Those
  that differ by more than a unit, and by more than 2 % in FLOPs, are [listed with their causes](#what-differs).

## Attentions, backbones and tasks

The families of configs that use an attention in a task. Each folder of `configs/` has a README with its models.

{attentions}

## Newer attentions at larger images and in dense tasks

- **Agent**: every row of its READMEs has a config: 18 classifiers, of which five are trained or fine-tuned at 256 to
  448, and 22 detectors and segmentors.
- **InLine**: its 13 classifiers have configs, of which DeiT-S and -B are trained at 288 and 448. Its README prints no
  detectors and segmentors, and the code has none, so their settings are out of reach.
- **PolaFormer**: its README prints five classifiers at 224, which have configs. It has neither larger images nor dense
  tasks.
- **SLAB**: its README prints six classifiers at 224 with its attention, which have configs. It has Mask R-CNN with
  SLAB-Swin-T and -S, but neither figures nor weights of them. Softmax models with its norms (six more rows) are their
  baseline's config with `progressive_norm`.

Any of these attentions runs in the detectors and segmentors of the other configs: set `mixers` of the backbone.

{table}

{note}
"""
DIFFERENCES = """\
Each cause is followed by its rows, with our number and the paper's. A cause that begins with *Inference* is our reading
of the figures and is not stated in the paper."""
TASK = """\
# {title}: results of the papers

The columns are explained in the [model zoo](../model_zoo.md). {note}"""
COVERAGE = """\
# Coverage of the model zoo

Number of results that each table of the papers prints, number of those in the [model zoo](../model_zoo.md) with a
config, and number of results without a config. These are listed below with the reason."""


def render_pages(entries: Sequence[ZooEntry]) -> dict[str, str]:
    """Render the committed pages: path below `docs/` -> text."""
    page = INTRODUCTION.format(
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
    numbers = []
    for row in printed:
        table = _table_of(row)
        numbers.append((int(row['results']), here[table], out[table]))
    cells = []
    for row, counts in zip(printed, numbers):
        cells.append((place(row), *map(str, counts), row['note']))
    cells.append(('all', *(str(sum(column)) for column in zip(*numbers)), ''))
    header = ('table', 'results', 'here', 'no config', 'note')
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
    return '; '.join(f'{"; ".join(group)} ({names})' for names, group in models.items())


def _summary(entries: Sequence[ZooEntry]) -> str:
    rows = [entry for entry in entries if entry.row.cells['paper']]
    verdicts = Counter(entry.agrees for entry in rows)
    configs = {entry.row.config for entry in rows if entry.row.config}
    others = {entry.row.config for entry in entries if entry.row.config} - configs
    return (
        f'{len(rows)} results with {len(configs)} configs, and {len(others)} configs of our own.'
        f' For {len(rows) - verdicts[""]} of the results the papers print parameters or FLOPs:'
        f' {verdicts["yes"]} agree with ours in all printed digits, {verdicts["unit"]} within one'
        f' unit of the last digit, {verdicts["near"]} within 2 % in FLOPs, and {verdicts["no"]}'
        ' differ by more.'
    )


def _differences(entries: Sequence[ZooEntry]) -> list[str]:
    different = [entry for entry in entries if entry.agrees == 'no']
    lines = ['## What differs', '', DIFFERENCES] if different else []
    for paper, group in groupby(different, key=lambda entry: entry.row.cells['paper']):
        rows = list(group)
        lines += ['', f'### {PAPERS[paper]}: what differs', '']
        for cause in dict.fromkeys(entry.row.cause for entry in rows):
            lines.append(f'- {cause or "Not found yet."}')
            lines += [f'    - {_difference(entry)}' for entry in rows if entry.row.cause == cause]
    return lines


def _difference(entry: ZooEntry) -> str:
    """Render a row that differs.

    For example: 'Table 8, [pvtv2-b0](...): 3.67 M parameters, the paper 3.4 (+7.8%)'.
    """
    parts = []
    if entry.params_agree == 'no':
        parts.append(('M parameters', *entry.params_cells(decimals=2)))
    if entry.flops_agree == 'no':
        parts.append(('G FLOPs', *entry.flops_cells()))
    numbers = '; '.join(
        f'{ours} {unit}, the paper {printed} ({percent})' for unit, ours, printed, percent in parts
    )
    return f'{table_name(entry.row.cells["table"])}, {linked_model(entry, "../")}: {numbers}'

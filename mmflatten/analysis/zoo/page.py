"""The model zoo as a Markdown page: the results by task, what differs and why, and what the papers print besides."""
from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from pathlib import PurePosixPath

from mmflatten.analysis.text_table import align, giga
from mmflatten.analysis.zoo.rows import ZooEntry
from mmflatten.analysis.zoo.tables import out_of_reach, printed_results

PAPERS = {'flatten': 'FLatten Transformer', 'l2vit': 'L2ViT', 'focal': 'Focal Transformer',
          'factorized': 'Factorized Attention', '': 'Configs that no paper has'}
TASKS = {'classification': 'Classification', 'detection': 'Detection', 'segmentation': 'Segmentation',
         'stereo': 'Stereo matching'}
DATASETS = {'imagenet1k': 'ImageNet-1k', 'imagenet22k': 'ImageNet-22k', 'coco': 'COCO', 'ade20k': 'ADE20K',
            'sceneflow': 'SceneFlow', 'digits': 'digit scenes'}
ACCURACIES = {'top1': 'top-1 (%)', 'ap_box': 'box AP', 'ap_mask': 'mask AP', 'miou': 'mIoU',
              'miou_ms': 'mIoU, multi-scale', 'macc': 'mAcc', 'epe': 'EPE (px)'}
COMMAND = 'python tools/analysis/reproduce_tables.py'

INTRODUCTION = f"""\
# Model zoo

Every result of the four papers (FLatten Transformer, L2ViT, Focal Transformer, Factorized Attention) for a model of
the backbones, attentions, detectors and segmentors of this project, beside what its config costs here. The papers'
other results are [listed at the end](#what-is-covered), with the reason.

[Classification](#classification) · [Detection](#detection) · [Segmentation](#segmentation) ·
[Stereo matching](#stereo-matching) · [What differs](#what-differs) · [What is covered](#what-is-covered)

- **Accuracy is the papers' own.** None on this page was measured by this project, which has trained none of these
  models. (It has trained those for the digit scenes; their configs say in the first lines what came out.)
- **Parameters, MACs, FLOPs** are counted from the configs, for one image of the given size. *MACs* are
  multiply-accumulates, products of activations (attention) included. *FLOPs* are the same run counted as the row's
  paper counts: MACs and elementwise norms, resizing and average pooling, as OpenMMLab's `get_flops.py`; where marked
  `*` without products of activations.
- **diff** is ours against the paper's. `~`: ours, rounded up or down to as many decimals as the paper prints, is the
  paper's figure (28.29 is `~` of 28 and of 29). Figures with `~` agree, and so do FLOPs within 2 % of the paper's;
  [the others](#what-differs) are listed with their causes.

Written by `{COMMAND}` (without data, weights or a GPU); do not edit.
The same data for a spreadsheet: [model_zoo.csv](model_zoo.csv).
"""
DIFFERENCES = """\
Each cause is followed by its rows: what we count, and what the paper prints. A cause that begins with *Inference* is
our reading of the figures; the paper does not say it."""
COVERAGE = """\
How many results each table of the papers prints, how many of these are on this page with a config, and how many are of
models that this project cannot configure."""


def render_page(entries: Sequence[ZooEntry]) -> str:
    """The whole page."""
    entries = sorted(entries, key=_order)
    parts = [INTRODUCTION, _summary(entries)]
    for task, title in TASKS.items():
        group = [entry for entry in entries if entry.row.cells['task'] == task]
        parts += [f'## {title}', *_tables(group)] if group else []
    parts += [_differences(entries), render_coverage(entries, printed_results(), out_of_reach())]
    return '\n\n'.join(part.strip() for part in parts if part) + '\n'


def render_tables(entries: Sequence[ZooEntry]) -> str:
    """Only the tables, for some of the rows."""
    return '\n\n'.join(_tables(entries))


def render_coverage(entries: Iterable[ZooEntry], printed: Sequence[Mapping[str, str]],
                    missing: Sequence[Mapping[str, str]]) -> str:
    """The section that counts what the papers print and what is here, and names the models out of reach.

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
    parts = [f'## What is covered\n\n{COVERAGE}', table]
    for paper, group in groupby(missing, key=lambda row: row['paper']):
        rows = list(group)
        lines = [f'- {_models([row for row in rows if row["reason"] == reason])}: {reason}'
                 for reason in dict.fromkeys(row['reason'] for row in rows)]
        parts.append('\n'.join([f'### Out of reach: {PAPERS[paper]}\n', *lines]))
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
    configs = {entry.row.config for entry in entries if entry.row.config}
    return (f'{len(rows)} results, {len(configs)} configs. For {len(rows) - verdicts[None]} of the results the papers '
            f'print parameters or FLOPs: {verdicts[True]} agree with ours, {verdicts[False]} differ.')


def _differences(entries: Sequence[ZooEntry]) -> str:
    different = [entry for entry in entries if entry.agrees is False]
    parts = [f'## What differs\n\n{DIFFERENCES}'] if different else []
    for paper, group in groupby(different, key=lambda entry: entry.row.cells['paper']):
        rows = list(group)
        lines = [f'### {PAPERS[paper]}: what differs\n']
        for cause in dict.fromkeys(entry.row.cause for entry in rows):
            lines.append(f'- {cause or "Not found yet."}')
            lines += [f'  - {_difference(entry)}' for entry in rows if entry.row.cause == cause]
        parts.append('\n'.join(lines))
    return '\n\n'.join(parts)


def _difference(entry: ZooEntry) -> str:
    """'Table 8, [pvtv2-b0](...): 3.67 M parameters, the paper 3.4 (+7.8%)'."""
    figures = []
    if entry.row.params_agree(entry.params) is False:
        figures.append(('M parameters', *entry.params_cells(decimals=2)))
    if entry.row.flops_agree(entry.flops) is False:
        figures.append(('G FLOPs', *entry.flops_cells()))
    said = '; '.join(f'{ours} {unit}, the paper {printed} ({percent})' for unit, ours, printed, percent in figures)
    return f'{table_name(entry.row.cells["table"])}, {_linked_model(entry)}: {said}'


def _tables(entries: Sequence[ZooEntry]) -> list[str]:
    parts = []
    for name in dict.fromkeys(map(_title, entries)):
        parts += [f'### {name}', _table([entry for entry in entries if _title(entry) == name])]
    return parts


def _title(entry: ZooEntry) -> str:
    cells = entry.row.cells
    if not cells['paper']:
        return f'{TASKS.get(cells["task"], "")}: {PAPERS[""].lower()}'
    return f'{place(cells)}: {DATASETS[cells["dataset"]]}'


def _order(entry: ZooEntry) -> tuple[int, bool, int, str]:
    """Papers as in `PAPERS`, their tables by number, then their figures."""
    paper, table = entry.row.cells['paper'], entry.row.cells['table']
    digits = ''.join(filter(str.isdigit, table))
    return list(PAPERS).index(paper), table.startswith('fig'), int(digits or 0), table


def place(cells: Mapping[str, str]) -> str:
    """'FLatten Transformer, Table 2a' for a row's cells."""
    return f'{PAPERS[cells["paper"]]}, {table_name(cells["table"])}'


def table_name(table: str) -> str:
    """'Table 2a' or 'Figure 5' for '2a' or 'fig5'."""
    return f'Figure {table[3:]}' if table.startswith('fig') else f'Table {table}'


def _table(group: Sequence[ZooEntry]) -> str:
    given = [name for name in ACCURACIES if any(entry.row.cells[name] for entry in group)]
    # Figures of our own configs have no paper's number beside them.
    shown = 3 if any(entry.row.cells['paper'] for entry in group) else 1
    header = ('model', 'image', *('params (M)', "paper's", 'diff')[:shown], 'MACs (G)',
              *('FLOPs (G)', "paper's", 'diff')[:shown], *(f"paper's {ACCURACIES[name]}" for name in given))
    rows = [(_linked_model(entry), entry.image or '-',
             *entry.params_cells(2)[:shown], giga(entry.macs) if entry.counted else '-', *entry.flops_cells()[:shown],
             *(entry.row.cells[name] or '-' for name in given)) for entry in group]
    return align(rows, header, {0}, markdown=True)


def _linked_model(entry: ZooEntry) -> str:
    cells = entry.row.cells
    name = _model(cells) if cells['paper'] else PurePosixPath(cells['config']).stem
    return f'[{name}](../{cells["config"]})' if cells['config'] else name


def _model(cells: Mapping[str, str]) -> str:
    parts = [cells[column] for column in ('backbone', 'method', 'schedule') if cells[column] not in ('', '-', '300e')]
    return ', '.join(parts[1:] if cells['method'].startswith(cells['backbone']) else parts)

"""Charts of the page: curves of the logs, and the parameters and operations of a model by module."""
from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from mmflatten.measure.flops.model_cost import ModelCost
from mmflatten.report.collect import TrainedRun
from mmflatten.results.analysis import ResultTable
from mmflatten.results.curves import curve
from mmflatten.results.figures import Bars, Plot

NO_CURVES = ('step', 'iter', 'epoch')
MAIN = ('loss', 'accuracy/top1', 'coco/bbox_mAP', 'coco/segm_mAP', 'mIoU', 'stereo/epe', 'stereo/d1', 'lr')
TITLES = dict(
    confusion='confusions', precision_recall='precision over recall at IoU 0.5', errors='cost of errors', iou='IoU',
    error_histogram='errors', d1_by_distance='D1 by true disparity')
MAX_MODULES = 16


class Chart(NamedTuple):
    """A figure with its title; `run` is the name of its run, or '' for all runs."""

    title: str
    plot: Plot
    run: str = ''


def curves(runs: Sequence[TrainedRun]) -> tuple[list[Chart], list[Chart]]:
    """Return the charts of the main keys of the logs and those of the other keys, one line for each run."""
    records = {run.name: run.records for run in runs}
    keys = dict.fromkeys(key for run in runs for record in run.records for key in record if key not in NO_CURVES)
    charts = {key: Chart(key, curve(key, records)) for key in keys}
    charts = {key: chart for key, chart in charts.items() if any(len(x) for x, _ in chart.plot.lines.values())}
    return [charts[key] for key in MAIN if key in charts], [charts[key] for key in charts if key not in MAIN]


def analysis_charts(runs: Sequence[TrainedRun]) -> list[list[Chart]]:
    """Return the figures of the analyses: a list for each figure, with a chart for each run that has it."""
    analyzed = [run for run in runs if run.analysis is not None]
    names = dict.fromkeys(name for run in analyzed for name in run.analysis.figures)
    return [[Chart(_title(name), run.analysis.figures[name], run.name if len(runs) > 1 else '')
             for run in analyzed if name in run.analysis.figures] for name in names]


def _title(name: str) -> str:
    kind, _, rest = name.partition('_')
    if kind in ('bbox', 'segm'):
        return f'{dict(bbox="Boxes", segm="Masks")[kind]}: {TITLES.get(rest, rest)}'
    title = TITLES.get(name, name)
    return title[0].upper() + title[1:]


def cost_charts(cost: ModelCost, run: str) -> list[Chart]:
    """Return bars of the parameters and of the multiply-accumulates of the largest modules."""
    modules, charts = cost.as_json(with_modules=True)['modules'], []
    for key, title, unit, single in (('params', 'Parameters', 'M', 1e6), ('macs', 'Multiply-accumulates', 'G', 1e9)):
        largest = largest_modules({name: module[key] for name, module in modules.items()})
        values = {name: count / single for name, count in largest.items()}
        charts.append(Chart(title, Bars(values, f'{title.lower()} ({unit})'), run))
    return charts


def largest_modules(totals: dict[str, int], number: int = MAX_MODULES) -> dict[str, int]:
    """Split the model into about `number` modules by repeatedly replacing the largest module with its children.

    Args:
        totals: dotted name of every module -> its count, including that of its children.
    """
    parts, whole = {'': totals['']}, set()
    while len(parts) < number and whole < parts.keys():
        name = max((part for part in parts if part not in whole), key=parts.__getitem__)
        prefix = f'{name}.' if name else ''
        children = {child: count for child, count in totals.items()
                    if child != name and child.startswith(prefix) and '.' not in child[len(prefix):] and count}
        if not children or len(parts) + len(children) > number + 2:
            whole.add(name)
            continue
        rest = parts.pop(name) - sum(children.values())
        parts.update(children)
        if rest > 0:
            parts[f'{name or "model"} (own)'] = rest
            whole.add(f'{name or "model"} (own)')
    return dict(sorted(parts.items(), key=lambda part: -part[1]))


def module_table(cost: ModelCost, run: str) -> ResultTable:
    """Tabulate the modules of the first two levels."""
    rows = [(name or 'model', module['type'], f'{module["params"] / 1e6:.3f}', f'{module["macs"] / 1e9:.3f}',
             f'{100 * module["macs"] / max(cost.counts.macs, 1):.1f}')
            for name, module in cost.as_json(with_modules=True)['modules'].items()
            if name.count('.') < 2 and (module['params'] or module['macs'])]
    return ResultTable(f'{run}: modules of two levels', (
        'module', 'type', 'parameters (M)', 'multiply-accumulates (G)', 'share (%)'), rows)

"""Figures as Plotly takes them: numbers here, colours and fonts in the browser, where the theme is known."""
from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import singledispatch
from typing import Any

import numpy as np

from mmflatten.report.collect import Run
from mmflatten.results.curves import counts_epochs, is_training
from mmflatten.results.figures import (
    MAX_NAMES,
    MAX_NUMBERS,
    Bars,
    Confusion,
    Histogram,
    PrecisionRecall,
    Reliability,
)

NO_CURVES = ('step', 'iter', 'epoch')
MAIN = ('loss', 'accuracy/top1', 'coco/bbox_mAP', 'coco/segm_mAP', 'mIoU', 'stereo/epe', 'stereo/d1', 'lr')
TITLES = dict(
    confusion='confusions', precision_recall='precision over recall at an overlap of 0.5', errors='cost of errors',
    iou='IoU', error_histogram='errors', d1_by_distance='D1 by true disparity')
_numbers = itertools.count()


@dataclass
class Chart:
    """A figure of the page.

    Attributes:
        alt: what it shows, for those who do not see it.
        data, layout: of Plotly.
        run: name of the run that it belongs to, '' for all of them.
        height: in pixels.
    """

    title: str
    alt: str
    data: list[dict]
    layout: dict[str, Any] = field(default_factory=dict)
    run: str = ''
    height: int = 300
    id: str = field(default_factory=lambda: f'chart-{next(_numbers)}')


def plain(values: Any) -> Any:
    """Arrays and numbers as JSON has them; None for what is no number."""
    if isinstance(values, dict):
        return {key: plain(value) for key, value in values.items()}
    if isinstance(values, (list, tuple, np.ndarray)):
        return [plain(value) for value in values]
    values = values.item() if hasattr(values, 'item') else values
    return None if isinstance(values, float) and not np.isfinite(values) else values


def curves(runs: Sequence[Run]) -> tuple[list[Chart], list[Chart]]:
    """A chart for each figure of the logs, a line for each run: those that matter most, and the others."""
    keys = dict.fromkeys(key for run in runs for record in run.records for key in record if key not in NO_CURVES)
    main, others = ([chart for key in names if (chart := _curve(key, runs)).data] for names in (
        [key for key in MAIN if key in keys], [key for key in keys if key not in MAIN]))
    return main, others


def _curve(key: str, runs: Sequence[Run]) -> Chart:
    of_training = any(is_training(record) for run in runs for record in run.records if key in record)
    data, said = [], []
    for index, run in enumerate(runs):
        points = [(record['step'], record[key]) for record in run.records if key in record
                  and is_training(record) == of_training and not _is_undefined(key, record[key])]
        if points:
            x, y = zip(*points)
            data.append(dict(type='scatter', mode='lines' if of_training and len(points) > 1 else 'lines+markers',
                             name=run.name, x=plain(x), y=plain(y), meta=index))
            said.append(f'{run.name} from {y[0]:.4g} to {y[-1]:.4g}')
    epochs = not of_training and all(counts_epochs(run.records) for run in runs if run.records)
    axis = 'epoch' if epochs else 'iteration'
    return Chart(key, f'{key} by {axis}: {", ".join(said)}', data, dict(
        xaxis=dict(title=dict(text=axis), rangemode='tozero'), showlegend=len(runs) > 1), height=230)


def _is_undefined(key: str, value: float) -> bool:
    """Whether COCO's evaluation found nothing to measure, which it marks by -1."""
    return value == -1 and key.startswith('coco/')


def title_of(name: str) -> str:
    """What to call a figure of an analysis."""
    kind, _, rest = name.partition('_')
    if kind in ('bbox', 'segm'):
        return f'{dict(bbox="Boxes", segm="Masks")[kind]}: {TITLES.get(rest, rest)}'
    title = TITLES.get(name, name)
    return title[0].upper() + title[1:]


@singledispatch
def chart_of(plot: Any, title: str, run: str) -> Chart:
    """The numbers of an analysis's figure as a chart."""
    raise TypeError(f'no chart is known for a {type(plot).__name__}')


@chart_of.register
def _(plot: Confusion, title: str, run: str) -> Chart:
    names, shares, number = list(plot.names), plot.shares, len(plot.names)
    data = dict(type='heatmap', z=plain(shares), x=names, y=names, customdata=plain(plot.matrix), zmin=0, zmax=1,
                hovertemplate='true %{y}, predicted %{x}: %{customdata} (%{z:.1%})<extra></extra>', showscale=False,
                xgap=1, ygap=1)
    if number <= MAX_NUMBERS:
        data.update(text=[[f'{share:.2f}' if share >= 0.005 else '' for share in row] for row in shares],
                    texttemplate='%{text}')
    axis = dict(type='category', showgrid=False, showticklabels=number <= MAX_NAMES, tickmode='linear')
    right = float(np.trace(plot.matrix) / max(plot.matrix.sum(), 1))
    return Chart(title, f'Matrix of {number} true by {number} predicted classes, as shares of the true class; '
                 f'{right:.1%} lie on the diagonal', [data],
                 dict(xaxis=dict(axis, title=dict(text='predicted'), tickangle=-90),
                      yaxis=dict(axis, title=dict(text='true'), autorange='reversed')), run, 420)


@chart_of.register
def _(plot: PrecisionRecall, title: str, run: str) -> Chart:
    data = [dict(type='scatter', mode='lines', name=name, x=plain(plot.recall), y=plain(values),
                 line=dict(width=3 if name == plot.mean else 1), **(dict(meta='text') if name == plot.mean else {}))
            for name, values in plot.precision.items()]
    return Chart(title, f'Precision over recall of {len(data)} lines: {", ".join(plot.precision)}', data,
                 dict(xaxis=dict(title=dict(text='recall'), range=[0, 1]), showlegend=len(data) <= MAX_NAMES // 2,
                      yaxis=dict(title=dict(text='precision'), range=[0, 1.02])), run, 340)


@chart_of.register
def _(plot: Reliability, title: str, run: str) -> Chart:
    data = [dict(type='scatter', mode='lines', name='calibrated', x=[0, 1], y=[0, 1], meta='muted',
                 line=dict(dash='dot', width=1), hoverinfo='skip'),
            dict(type='scatter', mode='lines+markers', name='model', x=plain(plot.confidence), y=plain(plot.accuracy),
                 customdata=plain(plot.counts), hovertemplate='%{x:.2f}: %{y:.2f}, %{customdata} predictions'
                 '<extra></extra>', meta=0)]
    return Chart(title, f'Share of right predictions over confidence; expected calibration error {plot.error:.3f}',
                 data, dict(xaxis=dict(title=dict(text='confidence'), range=[0, 1]), showlegend=False,
                            yaxis=dict(title=dict(text='share that is right'), range=[0, 1.02])), run, 340)


@chart_of.register
def _(plot: Bars, title: str, run: str) -> Chart:
    names, values = list(plot.values), plain(list(plot.values.values()))
    said = ', '.join(f'{name} {0 if value is None else value:.3g}' for name, value in zip(names[:10], values))
    data = dict(type='bar', orientation='h', y=names, x=values, texttemplate='%{x:.3g}', textposition='outside',
                cliponaxis=False, hovertemplate='%{y}: %{x:.4g}<extra></extra>', meta=0)
    return Chart(title, f'{plot.label}: {said}', [data], dict(
        xaxis=dict(title=dict(text=plot.label), range=[0, 1.25 * max((value or 0 for value in values), default=1)]),
        yaxis=dict(type='category', autorange='reversed', showgrid=False, tickmode='linear')),
        run, 110 + 22 * len(names))


@chart_of.register
def _(plot: Histogram, title: str, run: str) -> Chart:
    middles = (np.asarray(plot.edges)[:-1] + np.asarray(plot.edges)[1:]) / 2
    data = dict(type='bar', x=plain(middles), y=plain(plot.counts), meta=0)
    return Chart(title, f'{plot.label}: {int(np.sum(plot.counts))} pixels', [data], dict(
        xaxis=dict(title=dict(text=plot.label)), yaxis=dict(title=dict(text='pixels'), type='log'), bargap=0), run)

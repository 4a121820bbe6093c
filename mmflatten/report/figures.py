"""Figures of the page."""
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mmflatten.report.collect import TrainedRun
from mmflatten.results.curves import curve
from mmflatten.results.drawing import svg
from mmflatten.results.figures import Plot

NO_CURVES = ('step', 'iter', 'epoch')
MAIN = ('loss', 'accuracy/top1', 'coco/bbox_mAP', 'coco/segm_mAP', 'mIoU', 'stereo/epe', 'stereo/d1', 'lr')
TITLES = dict(
    confusion='confusions', precision_recall='precision over recall at IoU 0.5', errors='cost of errors', iou='IoU',
    error_histogram='errors', d1_by_distance='D1 by true disparity')


@dataclass(frozen=True)
class Chart:
    """A figure of the page; `run` is the name of its run, or '' for all runs."""

    title: str
    plot: Plot
    run: str = ''

    @property
    def alt(self) -> str:
        """Description for screen readers."""
        return f'{self.title}. {self.plot.description}'

    @property
    def svg(self) -> str:
        """Drawing as inline SVG."""
        return svg(self.plot)


def curves(runs: Sequence[TrainedRun]) -> tuple[list[Chart], list[Chart]]:
    """Return the charts of the main keys of the logs and those of the other keys, one line for each run."""
    records = {run.name: run.records for run in runs}
    keys = dict.fromkeys(key for run in runs for record in run.records for key in record if key not in NO_CURVES)
    charts = [Chart(key, curve(key, records)) for key in (*(key for key in MAIN if key in keys),
                                                          *(key for key in keys if key not in MAIN))]
    charts = [chart for chart in charts if any(len(x) for x, _ in chart.plot.lines.values())]
    return [chart for chart in charts if chart.title in MAIN], [chart for chart in charts if chart.title not in MAIN]


def title_of(name: str) -> str:
    """Return the title of a figure of an analysis."""
    kind, _, rest = name.partition('_')
    if kind in ('bbox', 'segm'):
        return f'{dict(bbox="Boxes", segm="Masks")[kind]}: {TITLES.get(rest, rest)}'
    title = TITLES.get(name, name)
    return title[0].upper() + title[1:]

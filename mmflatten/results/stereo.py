"""Analysis of stereo models: errors of disparity by distance, and the worst pairs."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import torch

from mmflatten.evaluation.stereo import StereoMetric, image_sums
from mmflatten.results.analysis import Analysis, ResultTable
from mmflatten.results.reading import Results, ResultsError, require_truth

DISPARITY_EDGES = (0, 4, 8, 16, 32, 64, 128, float('inf'))  # pixels
MAX_DISPARITY = 192  # default of `StereoMetric`


def analyze(results: Results, worst: int, score: float) -> Analysis:
    """Analyze disparities at the pixels that the test's `StereoMetric` evaluates."""
    require_truth(results.entries, 'gt_disparity')
    limit = results.setting('max_disp', MAX_DISPARITY)
    metric = StereoMetric(limit)
    metric.process(None, results.entries)
    true, predicted = _joined(results.entries, limit)
    if not len(true):
        raise ResultsError(
            f'max_disp: no pixel of {results.path} has a true disparity below the limit, got'
            f' {limit}.'
        )
    epes = []
    for sums in metric.results:
        epes.append(sums['error'] / sums['pixels'] if sums['pixels'] else float('nan'))
    order = np.argsort(-np.nan_to_num(epes, nan=-1), kind='stable')[:worst]
    return Analysis(
        task='stereo',
        images=len(results.entries),
        summary=metric.compute_metrics(metric.results),
        worst_by='end-point error in pixels',
        worst=[(int(index), float(epes[index])) for index in order],
        tables=dict(distances=_distance_table(true, predicted)),
    )


def _joined(entries: Sequence[dict], limit: float | None) -> tuple[torch.Tensor, torch.Tensor]:
    """Return true and predicted disparities at the pixels of all pairs that count."""
    true, predicted = [], []
    for entry in entries:
        truth = entry['gt_disparity']
        mask = truth['valid']
        if limit is not None:
            mask = mask & (truth['data'] < limit)
        true.append(truth['data'][mask].float())
        predicted.append(entry['pred_disparity']['data'][mask].float())
    return torch.cat(true), torch.cat(predicted)


def _distance_table(true: torch.Tensor, predicted: torch.Tensor) -> ResultTable:
    rows = []
    for low, high in pairwise(DISPARITY_EDGES):
        inside = (true >= low) & (true < high)
        if not inside.any():
            continue
        sums = image_sums(predicted[inside], true[inside], None)
        pixels = sums['pixels']
        interval = f'{low:g} to {high:g}' if high < float('inf') else f'{low:g} and more'
        row = [interval, pixels, sums['error'] / pixels]
        row += [100 * (sums[key] / pixels) for key in ('d1', 'bad1', 'bad3')]
        rows.append(tuple(row))
    return ResultTable(
        title='by true disparity in pixels, the farthest points first',
        header=('disparity', 'pixels', 'EPE', 'D1 %', 'bad1 %', 'bad3 %'),
        rows=rows,
    )

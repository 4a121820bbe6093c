"""Analysis of stereo models: errors of disparity by distance, and the worst pairs."""

from __future__ import annotations

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
    pairs = []
    for truth, predicted in (
        (entry['gt_disparity'], entry['pred_disparity']) for entry in results.entries
    ):
        mask = truth['valid'] if limit is None else truth['valid'] & (truth['data'] < limit)
        pairs.append((truth['data'][mask].float(), predicted['data'][mask].float()))
    true, predicted = (torch.cat(values) for values in zip(*pairs))
    if not len(true):
        raise ResultsError(
            f'max_disp: no pixel of {results.path} has a true disparity below the limit, got'
            f' {limit}.'
        )
    epes = [
        sums['error'] / sums['pixels'] if sums['pixels'] else float('nan')
        for sums in metric.results
    ]
    order = np.argsort(-np.nan_to_num(epes, nan=-1), kind='stable')[:worst]
    return Analysis(
        'stereo',
        len(pairs),
        metric.compute_metrics(metric.results),
        'end-point error in pixels',
        [(int(index), float(epes[index])) for index in order],
        dict(distances=_distance_table(true, predicted)),
    )


def _distance_table(true: torch.Tensor, predicted: torch.Tensor) -> ResultTable:
    rows = []
    for low, high in zip(DISPARITY_EDGES, DISPARITY_EDGES[1:]):
        inside = (true >= low) & (true < high)
        if inside.any():
            sums = image_sums(predicted[inside], true[inside], None)
            epe, d1, bad1, bad3 = (
                sums[key] / sums['pixels'] for key in ('error', 'd1', 'bad1', 'bad3')
            )
            interval = f'{low:g} to {high:g}' if high < float('inf') else f'{low:g} and more'
            rows.append((interval, sums['pixels'], epe, 100 * d1, 100 * bad1, 100 * bad3))
    return ResultTable(
        'by true disparity in pixels, the farthest points first',
        ('disparity', 'pixels', 'EPE', 'D1 %', 'bad1 %', 'bad3 %'),
        rows,
    )

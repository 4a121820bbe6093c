"""How far disparities are off, and how far a constant would be."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from mmengine.evaluator import BaseMetric

from mmflatten.registry import METRICS

BIN_WIDTH = 0.25  # pixels, of the histogram that the constant's error is computed from
MAX_BIN_DISPARITY = 512
D1_PIXELS, D1_SHARE = 3.0, 0.05


@METRICS.register_module()
class StereoMetric(BaseMetric):
    """End-point error and shares of wrong pixels, over all valid pixels of all images together.

    With the error `e = |predicted - true|` of a pixel:

    - `epe`: mean of `e`, in pixels;
    - `bad1`, `bad3`: percentage with `e > 1` and `e > 3`;
    - `d1`: percentage with `e > 3` and `e > 5 %` of the true disparity (KITTI 2015);
    - `epe_noc`, `epe_occ`: `epe` of the pixels that the right image shows and does not show, where the data set tells;
    - `epe_mean_disparity`: `epe` of the constant that equals the mean true disparity of the same pixels, which is what
      a model that has learnt nothing of the pair gets.

    A prediction that is no number is wrong by every measure, and `epe` is NaN then.

    PSMNet's own code averages the EPE over batches of 8 images, which weighs images with few valid pixels more.

    Args:
        max_disp: pixels whose true disparity is not below it do not count, as in PSMNet; None counts all.
        kwargs: of `mmengine.evaluator.BaseMetric`.
    """

    default_prefix = 'stereo'

    def __init__(self, max_disp: float | None = 192, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if max_disp is not None and not max_disp > 0:
            raise ValueError(f'max_disp ({max_disp}) must be positive, or None to count every disparity')
        self.max_disp = max_disp

    def process(self, data_batch: Any, data_samples: Sequence[dict]) -> None:
        """Keep the sums of each image.

        Raises:
            ValueError: prediction and truth differ in size, or there is no truth.
        """
        for sample in data_samples:
            name = sample.get('img_path', 'an image')
            if 'gt_disparity' not in sample:
                raise ValueError(f'{name} has no true disparity (gt_disparity), so nothing can be measured; put '
                                 'LoadDisparity into the pipeline, or test on a split that has a truth, or predict '
                                 'alone with test_evaluator=[]')
            truth, predicted = sample['gt_disparity'], sample['pred_disparity']['data'].float()
            true = truth['data'].to(predicted.device).float()
            if true.shape != predicted.shape:
                raise ValueError(f'pred_disparity of {name} has the shape {tuple(predicted.shape)} and gt_disparity '
                                 f'{tuple(true.shape)}; they must agree')
            counted = truth['valid'].to(predicted.device)
            if self.max_disp is not None:
                counted = counted & (true < self.max_disp)
            occlusion = truth.get('occlusion')
            occluded = None if occlusion is None else occlusion.to(predicted.device)[counted]
            self.results.append(image_sums(predicted[counted], true[counted], occluded))

    def compute_metrics(self, results: list[dict]) -> dict[str, float]:
        """Metrics of all images; NaN where no pixel counts."""
        total = {key: sum(result[key] for result in results) for key in results[0]}
        metrics = dict(
            epe=_ratio(total['error'], total['pixels']),
            bad1=100 * _ratio(total['bad1'], total['pixels']),
            bad3=100 * _ratio(total['bad3'], total['pixels']),
            d1=100 * _ratio(total['d1'], total['pixels']))
        if all(result['has_occlusion'] for result in results):
            metrics['epe_noc'] = _ratio(total['noc_error'], total['noc_pixels'])
            metrics['epe_occ'] = _ratio(total['error'] - total['noc_error'], total['pixels'] - total['noc_pixels'])
        metrics['epe_mean_disparity'] = mean_disparity_error(total['bin_pixels'], total['bin_disparity'])
        return metrics


def image_sums(predicted: torch.Tensor, true: torch.Tensor, occluded: torch.Tensor | None) -> dict[str, Any]:
    """Sums over the counted pixels of one image.

    Args:
        predicted: (n,) in pixels.
        true: (n,) in pixels.
        occluded: (n,) bool, or None where it is not known.
    """
    error = (predicted - true).abs().double()
    seen = torch.ones_like(error, dtype=torch.bool) if occluded is None else ~occluded
    number = int(MAX_BIN_DISPARITY / BIN_WIDTH)
    bins = (true / BIN_WIDTH).long().clamp(0, number - 1).cpu().numpy()
    return dict(
        pixels=error.numel(),
        error=error.sum().item(),
        # "Not at most", where "above" would let NaN pass as right.
        bad1=(~(error <= 1)).sum().item(),
        bad3=(~(error <= 3)).sum().item(),
        d1=(~((error <= D1_PIXELS) | (error <= D1_SHARE * true.abs()))).sum().item(),
        has_occlusion=occluded is not None,
        noc_pixels=seen.sum().item(),
        noc_error=error[seen].sum().item(),
        bin_pixels=np.bincount(bins, minlength=number),
        bin_disparity=np.bincount(bins, true.double().cpu().numpy(), number))


def mean_disparity_error(pixels: np.ndarray, disparity: np.ndarray) -> float:
    """Mean distance of disparities to their mean, from a histogram.

    Exact but for the one bin that the mean falls into, which is `BIN_WIDTH` wide.

    Args:
        pixels: number of pixels in each bin.
        disparity: sum of their disparities.
    """
    filled = pixels > 0
    mean = _ratio(disparity.sum(), pixels.sum())
    distance = np.abs(disparity[filled] / pixels[filled] - mean)
    return _ratio((distance * pixels[filled]).sum(), pixels.sum())


def _ratio(numerator: float, denominator: float) -> float:
    return float(numerator) / float(denominator) if denominator else float('nan')

"""Errors of predicted disparities, and of a constant prediction for comparison."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from mmengine.evaluator import BaseMetric

from mmflatten.registry import METRICS

BIN_WIDTH = 0.25  # pixels; bins of the histogram for the error of the constant prediction
MAX_BIN_DISPARITY = 512
# KITTI 2015: a pixel is wrong above both limits.
D1_PIXELS = 3.0
D1_FRACTION = 0.05  # of the true disparity


@METRICS.register_module()
class StereoMetric(BaseMetric):
    """End-point error and percentages of wrong pixels, over all valid pixels of all images.

    With the error `e = |predicted - true|` of a pixel:

    - `epe`: mean of `e`, in pixels;
    - `bad1`, `bad3`: percentage with `e > 1` and `e > 3`;
    - `d1`: percentage with `e > 3` and `e > 5 %` of the true disparity (KITTI 2015);
    - `epe_noc`, `epe_occ`: `epe` of non-occluded and occluded pixels, for data sets with this
      annotation;
    - `epe_mean_disparity`: `epe` of a constant prediction, the mean true disparity of the same
      pixels. A model that has learnt nothing from the images reaches this value.

    A NaN prediction counts as wrong in all percentages and makes `epe` NaN.

    PSMNet's official code averages the EPE over batches of 8 images, so that images with few valid
    pixels have more weight.

    Args:
        max_disp: only pixels with a true disparity below this value count, as in PSMNet; None
            counts all pixels.
        kwargs: arguments of `mmengine.evaluator.BaseMetric`.
    """

    default_prefix = 'stereo'

    def __init__(self, max_disp: float | None = 192, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if max_disp is not None and not max_disp > 0:
            raise ValueError(
                'max_disp: expected a positive number, or None to count all pixels, got'
                f' {max_disp}.'
            )
        self.max_disp = max_disp

    def process(self, data_batch: Any, data_samples: Sequence[dict]) -> None:
        """Store the sums of each image.

        Raises:
            ValueError: the ground truth is missing, or its size differs from the prediction.
        """
        for sample in data_samples:
            name = sample.get('img_path', 'an image')
            if 'gt_disparity' not in sample:
                raise ValueError(
                    f'gt_disparity of {name}: missing. Add LoadDisparity to the pipeline, test on a'
                    ' split with ground truth, or only predict with test_evaluator=[].'
                )
            truth = sample['gt_disparity']
            predicted = sample['pred_disparity']['data'].float()
            true = truth['data'].to(predicted.device).float()
            if true.shape != predicted.shape:
                raise ValueError(
                    f'pred_disparity of {name}: expected the shape of gt_disparity,'
                    f' {tuple(true.shape)}, got {tuple(predicted.shape)}.'
                )
            counted = truth['valid'].to(predicted.device)
            if self.max_disp is not None:
                counted = counted & (true < self.max_disp)
            occlusion = truth.get('occlusion')
            occluded = None if occlusion is None else occlusion.to(predicted.device)[counted]
            self.results.append(image_sums(predicted[counted], true[counted], occluded))

    def compute_metrics(self, results: list[dict]) -> dict[str, float]:
        """Compute the metrics over all images, NaN if no pixel counts."""
        total = dict(results[0])
        for result in results[1:]:
            for key, value in result.items():
                total[key] = total[key] + value
        pixels = total['pixels']
        metrics = dict(
            epe=_ratio(total['error'], pixels),
            bad1=100 * _ratio(total['bad1'], pixels),
            bad3=100 * _ratio(total['bad3'], pixels),
            d1=100 * _ratio(total['d1'], pixels),
        )
        if all(result['has_occlusion'] for result in results):
            metrics['epe_noc'] = _ratio(total['noc_error'], total['noc_pixels'])
            occluded_error = total['error'] - total['noc_error']
            metrics['epe_occ'] = _ratio(occluded_error, pixels - total['noc_pixels'])
        metrics['epe_mean_disparity'] = mean_disparity_error(
            total['bin_pixels'], total['bin_disparity']
        )
        return metrics


def image_sums(
    predicted: torch.Tensor, true: torch.Tensor, occluded: torch.Tensor | None
) -> dict[str, Any]:
    """Compute sums over the counted pixels of one image.

    Args:
        predicted: predicted disparities (n,) in pixels.
        true: true disparities (n,) in pixels.
        occluded: occlusion mask (n,) bool, or None if unknown.
    """
    error = (predicted - true).abs().double()
    # NaN must count as wrong, so that each comparison is true for a correct pixel.
    is_close = (error <= D1_PIXELS) | (error <= D1_FRACTION * true.abs())
    seen = torch.ones_like(error, dtype=torch.bool) if occluded is None else ~occluded
    number = int(MAX_BIN_DISPARITY / BIN_WIDTH)
    bins = (true / BIN_WIDTH).long().clamp(0, number - 1).cpu().numpy()
    return dict(
        pixels=error.numel(),
        error=error.sum().item(),
        bad1=(~(error <= 1)).sum().item(),
        bad3=(~(error <= 3)).sum().item(),
        d1=(~is_close).sum().item(),
        has_occlusion=occluded is not None,
        noc_pixels=seen.sum().item(),
        noc_error=error[seen].sum().item(),
        bin_pixels=np.bincount(bins, minlength=number),
        bin_disparity=np.bincount(bins, true.double().cpu().numpy(), number),
    )


def mean_disparity_error(pixels: np.ndarray, disparity: np.ndarray) -> float:
    """Compute the mean distance of disparities to their mean, from a histogram.

    The only approximation is within the bin of the mean, which is `BIN_WIDTH` wide.

    Args:
        pixels: number of pixels in each bin.
        disparity: sum of the disparities in each bin.
    """
    filled = pixels > 0
    mean = _ratio(disparity.sum(), pixels.sum())
    distance = np.abs(disparity[filled] / pixels[filled] - mean)
    return _ratio((distance * pixels[filled]).sum(), pixels.sum())


def _ratio(numerator: float, denominator: float) -> float:
    return float(numerator) / float(denominator) if denominator else float('nan')

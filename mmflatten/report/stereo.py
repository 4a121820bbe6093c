"""Layers of a stereo pair: maps of disparity and error."""
from __future__ import annotations

from typing import Any

import cv2
import numpy as np

from mmflatten.datasets.stereo.visualizer import colour_map
from mmflatten.report.layers import Encode, SampleLayer
from mmflatten.results.reading import Results

MAX_ERROR = 5.  # pixels, the brightest colour


def layers(results: Results, entry: dict, encode: Encode, score: float) -> tuple[list[SampleLayer], list[str]]:
    true, valid, predicted = (_unpadded(values, entry['ori_shape']) for values in (
        entry['gt_disparity']['data'], entry['gt_disparity']['valid'], entry['pred_disparity']['data']))
    top, error = max(1., float(true[valid].max(initial=0))), np.abs(predicted - true)
    return [
        SampleLayer('truth', 'Truth', picture=encode(colour_map(true, top, cv2.COLORMAP_TURBO, valid))),
        SampleLayer('prediction', 'Prediction', picture=encode(colour_map(predicted, top, cv2.COLORMAP_TURBO))),
        SampleLayer('error', 'Error', picture=encode(colour_map(error, MAX_ERROR, cv2.COLORMAP_INFERNO, valid)))
    ], []


def _unpadded(values: Any, hw_shape: tuple[int, int]) -> np.ndarray:
    """Crop a map (1, H, W) to (H, W) without the top and right border of `StereoPad`."""
    array = np.asarray(values)[0]
    return array[array.shape[0] - hw_shape[0]:, :hw_shape[1]]

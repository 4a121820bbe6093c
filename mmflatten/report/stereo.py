"""Truth and predictions of stereo as layers over an image."""
from __future__ import annotations

from typing import Any

import cv2
import numpy as np

from mmflatten.datasets.stereo.visualizer import colour_map
from mmflatten.report.layers import Encode, Layer
from mmflatten.results.reading import Results

MAX_ERROR = 5.  # pixels of disparity that get the brightest colour


def layers(results: Results, entry: dict, encode: Encode, score: float) -> tuple[list[Layer], list[str]]:
    true, valid, predicted = (_unpadded(values, entry['ori_shape']) for values in (
        entry['gt_disparity']['data'], entry['gt_disparity']['valid'], entry['pred_disparity']['data']))
    top, error = max(1., float(true[valid].max(initial=0))), np.abs(predicted - true)
    return [Layer('truth', 'Truth', picture=encode(colour_map(true, top, cv2.COLORMAP_TURBO, valid))),
            Layer('prediction', 'Prediction', picture=encode(colour_map(predicted, top, cv2.COLORMAP_TURBO))),
            Layer('error', 'Error', picture=encode(colour_map(error, MAX_ERROR, cv2.COLORMAP_INFERNO, valid)))], []


def _unpadded(values: Any, hw_shape: tuple[int, int]) -> np.ndarray:
    """A map (1, H, W) without the border of `StereoPad`, which is above and to the right, as (H, W)."""
    array = np.asarray(values)[0]
    return array[array.shape[0] - hw_shape[0]:, :hw_shape[1]]

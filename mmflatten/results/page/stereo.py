"""Layers of a stereo pair: maps of disparity and error."""
from __future__ import annotations

import cv2
import numpy as np

from mmflatten.datasets.stereo.visualizer import colour_map
from mmflatten.results.page.samples import Encode, SampleLayer
from mmflatten.results.reading import Results

MAX_ERROR = 5.  # pixels, the brightest colour


def layers(results: Results, entry: dict, encode: Encode, score: float) -> tuple[list[SampleLayer], list[str]]:
    maps = (entry['gt_disparity']['data'], entry['gt_disparity']['valid'], entry['pred_disparity']['data'])
    height, width = entry['ori_shape']
    true, valid, predicted = (np.asarray(values)[0, -height:, :width] for values in maps)  # `StereoPad` adds a border
    top, error = max(1., float(true[valid].max(initial=0))), np.abs(predicted - true)
    return [
        SampleLayer('truth', picture=encode(colour_map(true, top, cv2.COLORMAP_TURBO, valid))),
        SampleLayer('prediction', picture=encode(colour_map(predicted, top, cv2.COLORMAP_TURBO))),
        SampleLayer('error', picture=encode(colour_map(error, MAX_ERROR, cv2.COLORMAP_INFERNO, valid)))], []

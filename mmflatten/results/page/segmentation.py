"""Layers of a segmented image: label maps in colour."""
from __future__ import annotations

import numpy as np

from mmflatten.results.page.samples import Encode, SampleLayer, palette_of
from mmflatten.results.reading import Results

OPACITY = 180  # of 255


def layers(results: Results, entry: dict, encode: Encode, score: float) -> tuple[list[SampleLayer], list[str]]:
    maps = np.stack([np.asarray(entry[key]['data'])[0].astype(np.int64) for key in ('gt_sem_seg', 'pred_sem_seg')])
    names = results.names(len(results.origin.get('classes') or ()) or int(maps.max()) + 1)
    known = maps < len(names)
    colours = np.asarray(palette_of(results, len(names)), np.uint8)[np.where(known, maps, 0)]
    pictures = np.concatenate([colours, OPACITY * known[..., None].astype(np.uint8)], axis=-1)
    return [SampleLayer(kind, picture=encode(picture, lossless=True)) for kind, picture in zip(
        ('truth', 'prediction'), pictures)], [names[label] for label in np.unique(maps[known])]

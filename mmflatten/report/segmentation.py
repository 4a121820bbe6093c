"""Layers of a segmented image: label maps in colour."""
from __future__ import annotations

import numpy as np

from mmflatten.report.layers import Encode, SampleLayer, palette_of
from mmflatten.results.reading import Results

OPACITY = 180  # of 255


def layers(results: Results, entry: dict, encode: Encode, score: float) -> tuple[list[SampleLayer], list[str]]:
    maps = [np.asarray(entry[key]['data'])[0].astype(np.int64) for key in ('gt_sem_seg', 'pred_sem_seg')]
    names = results.names(len(results.origin.get('classes') or ()) or int(max(map(np.max, maps))) + 1)
    palette = np.asarray(palette_of(results, len(names)), np.uint8)
    layers = []
    for kind, labels in zip(('truth', 'prediction'), maps):
        known = labels < len(names)
        colours = np.dstack([palette[np.where(known, labels, 0)], OPACITY * known.astype(np.uint8)])
        layers.append(SampleLayer(kind, kind.capitalize(), picture=encode(colours, lossless=True)))
    return layers, [names[label] for label in np.unique(np.concatenate([labels.ravel() for labels in maps]))
                    if label < len(names)]

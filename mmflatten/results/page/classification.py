"""Layers of a classified image: labels as text."""
from __future__ import annotations

import numpy as np

from mmflatten.results.page.samples import Encode, SampleLayer
from mmflatten.results.reading import Results


def layers(results: Results, entry: dict, encode: Encode, score: float) -> tuple[list[SampleLayer], list[str]]:
    scores = np.asarray(entry['pred_score'])
    names = results.names(len(scores))
    true, best = names[int(np.asarray(entry['gt_label']).reshape(-1)[0])], int(scores.argmax())
    return [SampleLayer('truth', text=true),
            SampleLayer('prediction', text=f'{names[best]} ({scores[best]:.2f})')], [true, names[best]]

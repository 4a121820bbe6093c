"""Truth and predictions of classification as layers over an image."""
from __future__ import annotations

import numpy as np

from mmflatten.report.layers import Encode, Layer
from mmflatten.results.reading import Results


def layers(results: Results, entry: dict, encode: Encode, score: float) -> tuple[list[Layer], list[str]]:
    scores = np.asarray(entry['pred_score'])
    names = results.names(len(scores))
    true, best = names[int(np.asarray(entry['gt_label']).reshape(-1)[0])], int(scores.argmax())
    return [Layer('truth', 'Truth', text=true),
            Layer('prediction', 'Prediction', text=f'{names[best]} ({scores[best]:.2f})')], [true, names[best]]

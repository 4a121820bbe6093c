"""Results of exported classifiers."""

from typing import Any

import numpy as np

from mmflatten.runtime.model import tensor

OUTPUTS = (('probabilities',),)
PADS = False


def add_prediction(sample: Any, result: dict[str, np.ndarray], size: tuple[int, int]) -> None:
    """Set `pred_score` (classes) and `pred_label` (1) of a data sample."""
    scores = tensor(result['probabilities'])
    sample.set_pred_score(scores).set_pred_label(scores.argmax(dim=0, keepdim=True))

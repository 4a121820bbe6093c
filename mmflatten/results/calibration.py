"""Calibration of confidences."""
from __future__ import annotations

import numpy as np
from sklearn.calibration import calibration_curve

from mmflatten.results.figures import Reliability

BINS = 10


def reliability(confidence: np.ndarray, correct: np.ndarray) -> Reliability:
    """Bin predictions into `BINS` bins of equal width and compute the expected calibration error.

    The error is the mean of |accuracy - confidence| over the predictions (Guo et al., 2017, equation 3).

    Args:
        confidence: (n,) from 0 to 1.
        correct: (n,) bool.
    """
    accuracy, mean = calibration_curve(correct, confidence, n_bins=BINS, pos_label=1)
    counts = np.bincount(np.searchsorted(np.linspace(0, 1, BINS + 1)[1:-1], confidence))
    counts = counts[counts > 0]
    return Reliability(mean, accuracy, counts, float(np.average(np.abs(accuracy - mean), weights=counts)))

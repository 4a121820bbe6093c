"""Whether a model is as often right as it says."""
from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from sklearn.calibration import calibration_curve

from mmflatten.results.figures import Reliability

BINS = 10


@dataclass(frozen=True)
class Calibration:
    """Bins of equal width, those that hold predictions.

    Attributes:
        confidence: (bins,) mean confidence.
        accuracy: (bins,) share of predictions that are right.
        counts: (bins,) number of predictions.
    """

    confidence: np.ndarray
    accuracy: np.ndarray
    counts: np.ndarray

    @classmethod
    def of(cls, confidence: np.ndarray, right: np.ndarray) -> Calibration:
        """Bin predictions by confidence (n,) from 0 to 1; `right` (n,) says which are."""
        accuracy, mean = calibration_curve(right, confidence, n_bins=BINS, pos_label=1)
        counts = np.bincount(np.searchsorted(np.linspace(0, 1, BINS + 1)[1:-1], confidence))
        return cls(mean, accuracy, counts[counts > 0])

    @property
    def error(self) -> float:
        """Expected calibration error, the mean of |accuracy - confidence| (Guo et al., 2017, equation 3)."""
        return float(np.average(np.abs(self.accuracy - self.confidence), weights=self.counts))

    @property
    def figure(self) -> Reliability:
        return Reliability(self.confidence, self.accuracy, self.counts, self.error)

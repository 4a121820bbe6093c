"""Intervals, verdicts and error rates of comparisons, without the libraries that compute them."""

from __future__ import annotations

import math
from dataclasses import dataclass

ALPHA = 0.05
POWER = 0.8
BETTER = 'better'
WORSE = 'worse'
EQUIVALENT = 'equivalent'
UNDECIDED = 'undecided'
UNTESTED = 'too few seeds'
LIKE_NONE = 'like none'  # verdict on two levels of which neither differs from the control


@dataclass(frozen=True)
class Interval:
    """Estimate with its confidence interval. The limits are NaN if the error of the estimate is
    unknown.
    """

    mean: float
    low: float = math.nan
    high: float = math.nan
    number: int = 1

    def text(self, sign: int = 1) -> str:
        mean = f'{sign * self.mean:.4g}'
        if math.isnan(self.low):
            return mean
        low, high = sorted((sign * self.low, sign * self.high))
        return f'{mean} [{low:.4g}, {high:.4g}]'


@dataclass(frozen=True)
class Comparison:
    """Difference of two levels with its simultaneous interval. A positive difference means that the
    first is better.
    """

    first: str
    second: str
    difference: Interval
    p: float  # corrected for all tests of the family; NaN if not tested
    verdict: str

    @property
    def p_text(self) -> str:
        return '' if math.isnan(self.p) else p_text(self.p)


@dataclass(frozen=True)
class Family:
    """Tests that share one error rate.

    Attributes:
        margin: largest difference that does not matter; 0 for no tests of equivalence.
        alpha: rate of false verdicts over all tests of the family.
        number: number of tests.
    """

    margin: float = 0.0
    alpha: float = ALPHA
    number: int = 1


ONE_TEST = Family()


def p_text(p: float) -> str:
    return f'{p:.3f}' if p >= 0.0005 else '<0.001'

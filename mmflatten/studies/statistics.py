"""Means, paired tests and ranks of results, by scipy, statsmodels and scikit-posthocs."""
from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
import scikit_posthocs
from scipy import stats
from statsmodels.stats.multitest import multipletests

ALPHA = 0.05
BETTER, WORSE, NOISE, UNTESTED = 'better', 'worse', 'inside the noise', 'too few seeds'


@dataclass(frozen=True)
class Interval:
    """A mean with its 95 % interval by Student's t, which one value does not have (NaN)."""

    mean: float
    low: float
    high: float
    number: int


@dataclass(frozen=True)
class Comparison:
    """Two levels over the seeds that both have; a positive difference means that the first is better."""

    first: str
    second: str
    difference: Interval
    effect: float  # Cohen's d of the paired differences: their mean in units of their standard deviation
    p: float  # paired t-test
    p_wilcoxon: float
    p_holm: float = math.nan  # of the t-test, corrected for its family

    @property
    def verdict(self) -> str:
        """Whether the first is better or worse than the second, or the seeds do not tell, or are too few to test."""
        if math.isnan(self.p):
            return UNTESTED
        if not self.p_holm < ALPHA:
            return NOISE
        return BETTER if self.difference.mean > 0 else WORSE


def interval(values: Sequence[float]) -> Interval:
    """The mean of values and its 95 % interval."""
    mean = float(np.mean(values))
    if len(values) < 2:
        return Interval(mean, math.nan, math.nan, len(values))
    if np.ptp(values) == 0:
        return Interval(mean, mean, mean, len(values))
    low, high = stats.ttest_1samp(values, 0).confidence_interval(1 - ALPHA)
    return Interval(mean, float(low), float(high), len(values))


def compare(first: str, second: str, values: Mapping[str, Mapping[int, float]]) -> Comparison:
    """Compare two levels, paired by seed; not tested where the differences of fewer than two seeds differ.

    Args:
        values: level -> seed -> metric, larger where better.
    """
    seeds = sorted(values[first].keys() & values[second].keys())
    differences = np.array([values[first][seed] - values[second][seed] for seed in seeds])
    if len(seeds) > 1 and not differences.any():
        return Comparison(first, second, interval(differences), 0., 1., 1.)
    if len(seeds) < 2 or np.allclose(differences, differences[0], rtol=1e-9, atol=0):
        alone = Interval(float(differences.mean()) if seeds else math.nan, math.nan, math.nan, len(seeds))
        return Comparison(first, second, alone, math.nan, math.nan, math.nan)
    effect = float(differences.mean() / differences.std(ddof=1))
    p, p_wilcoxon = stats.ttest_1samp(differences, 0).pvalue, stats.wilcoxon(differences).pvalue
    return Comparison(first, second, interval(differences), effect, float(p), float(p_wilcoxon))


def holm(family: Sequence[Comparison]) -> list[Comparison]:
    """Correct the p-values of comparisons that are judged together; those without one stay without."""
    tested = [item for item in family if not math.isnan(item.p)]
    corrected = iter(multipletests([item.p for item in tested], ALPHA, method='holm')[1] if tested else ())
    return [item if math.isnan(item.p) else replace(item, p_holm=float(next(corrected))) for item in family]


@dataclass(frozen=True)
class Ranks:
    """Average ranks of levels over blocks (1 is the best), and Nemenyi's p-value of every pair."""

    average: pd.Series
    pairs: pd.DataFrame
    friedman: float  # p-value of all being alike
    blocks: int


def rank(means: pd.DataFrame) -> Ranks | None:
    """Rank the columns (levels) within each row (block), larger being better.

    Columns with a gap are left out; None where less than 3 columns or 2 rows remain.
    """
    whole = means.dropna(axis=1)
    if whole.shape[0] < 2 or whole.shape[1] < 3:
        return None
    values = whole.to_numpy()
    pairs = scikit_posthocs.posthoc_nemenyi_friedman(-values)
    pairs.index = pairs.columns = whole.columns
    return Ranks(whole.rank(axis=1, ascending=False).mean().sort_values(), pairs,
                 float(stats.friedmanchisquare(*values.T).pvalue), len(whole))


def pareto(costs: Sequence[float], values: Sequence[float]) -> list[bool]:
    """Which points no other one beats: none is as cheap and better, or cheaper and as good."""
    points = list(zip(costs, values))
    return [not any(cost <= own_cost and value >= own and (cost, value) != (own_cost, own) for cost, value in points)
            for own_cost, own in points]

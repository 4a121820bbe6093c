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
    """Mean and 95 % confidence interval (Student's t). The interval is NaN for a single value."""

    mean: float
    low: float
    high: float
    number: int


@dataclass(frozen=True)
class Comparison:
    """Comparison of two levels over their common seeds. A positive difference means that the first is better."""

    first: str
    second: str
    difference: Interval
    effect: float  # Cohen's d: mean of the paired differences in units of their standard deviation
    p: float  # paired t-test; NaN if not tested
    p_wilcoxon: float
    p_holm: float = math.nan  # of the t-test, corrected for its family

    @property
    def verdict(self) -> str:
        if math.isnan(self.p):
            return UNTESTED
        if not self.p_holm < ALPHA:
            return NOISE
        return BETTER if self.difference.mean > 0 else WORSE


def interval(values: Sequence[float]) -> Interval:
    """Mean of values with its 95 % confidence interval."""
    mean = float(np.mean(values)) if len(values) else math.nan
    if len(values) < 2:
        return Interval(mean, math.nan, math.nan, len(values))
    if np.ptp(values) == 0:
        return Interval(mean, mean, mean, len(values))
    low, high = stats.ttest_1samp(values, 0).confidence_interval(1 - ALPHA)
    return Interval(mean, float(low), float(high), len(values))


def compare(first: str, second: str, values: Mapping[str, Mapping[int, float]]) -> Comparison:
    """Compare two levels, paired by seed. Not tested if there are fewer than two different differences.

    Args:
        values: level -> seed -> metric, larger is better.
    """
    seeds = sorted(values[first].keys() & values[second].keys())
    differences = np.array([values[first][seed] - values[second][seed] for seed in seeds])
    if len(seeds) > 1 and not differences.any():
        return Comparison(first, second, interval(differences), 0., 1., 1.)
    if len(seeds) < 2 or np.allclose(differences, differences[0], rtol=1e-9, atol=0):
        alone = replace(interval(differences), low=math.nan, high=math.nan)
        return Comparison(first, second, alone, math.nan, math.nan, math.nan)
    effect = float(differences.mean() / differences.std(ddof=1))
    p, p_wilcoxon = stats.ttest_1samp(differences, 0).pvalue, stats.wilcoxon(differences).pvalue
    return Comparison(first, second, interval(differences), effect, float(p), float(p_wilcoxon))


def holm(family: Sequence[Comparison]) -> list[Comparison]:
    """Correct the p-values of comparisons that are judged together (Holm). Untested ones are left as they are."""
    tested = [item.p for item in family if not math.isnan(item.p)]
    corrected = iter(multipletests(tested, ALPHA, method='holm')[1] if tested else ())
    return [item if math.isnan(item.p) else replace(item, p_holm=float(next(corrected))) for item in family]


@dataclass(frozen=True)
class Ranks:
    """Average ranks of levels over blocks (1 is the best), with Nemenyi's p-value for every pair."""

    average: pd.Series
    pairs: pd.DataFrame
    friedman: float  # p-value of the hypothesis that all are alike
    blocks: int


def rank(means: pd.DataFrame) -> Ranks | None:
    """Rank the columns (levels) within each row (block); larger is better.

    Columns with gaps are left out. None if fewer than 3 columns or 2 rows remain.
    """
    complete = means.dropna(axis=1)
    if complete.shape[0] < 2 or complete.shape[1] < 3:
        return None
    values = complete.to_numpy()
    pairs = scikit_posthocs.posthoc_nemenyi_friedman(-values)
    pairs.index = pairs.columns = complete.columns
    return Ranks(complete.rank(axis=1, ascending=False).mean().sort_values(), pairs,
                 float(stats.friedmanchisquare(*values.T).pvalue), len(complete))


def pareto(costs: Sequence[float], values: Sequence[float]) -> list[bool]:
    """Mark the points on the Pareto front: no other point is as cheap and better, or cheaper and as good."""
    points = list(zip(costs, values))
    return [not any(other[0] <= cost and other[1] >= value and other != (cost, value) for other in points)
            for cost, value in points]

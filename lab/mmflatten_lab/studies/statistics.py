"""Linear models of results, and simultaneous comparisons of levels."""

from __future__ import annotations

import functools
import math
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd
from scipy import stats
from statsmodels.regression.linear_model import OLS, RegressionResults
from statsmodels.tools.sm_exceptions import ModelWarning

from mmflatten_lab.studies.comparisons import (
    ALPHA,
    BETTER,
    EQUIVALENT,
    LIKE_NONE,
    ONE_TEST,
    POWER,
    UNDECIDED,
    UNTESTED,
    WORSE,
    Comparison,
    Family,
    Interval,
)
from mmflatten_lab.studies.controls import NONE
from mmflatten_lab.studies.families import processor_family
from mmflatten_lab.studies.runs import StudyRun
from mmflatten_lab.studies.study import Study

DRAWS = 40_000  # for the distribution of the largest of several t statistics
SMALLEST_ERROR = 1e-12  # standard error used in ratios, so that equal values give finite statistics


def mean_interval(values: Sequence[float]) -> Interval:
    """Mean and 95 % confidence interval (Student's t). The interval is NaN for a single value."""
    mean = float(np.mean(values)) if len(values) else math.nan
    if len(values) < 2:
        return Interval(mean, number=len(values))
    half = float(stats.sem(values) * stats.t.ppf(1 - ALPHA / 2, len(values) - 1))
    return Interval(mean, mean - half, mean + half, len(values))


def seed_means(study: Study, runs: Iterable[StudyRun], factor: str) -> pd.DataFrame:
    """Average each level and seed over the combinations of the other factors that have all levels.

    The runs of one seed on one processor are not independent, so each counts once. A seed that
    misses one of these combinations is left out for that level.

    Returns:
        Metrics, negated if lower is better: a column for each level of the factor, a row for each
        seed on each family of processors.
    """
    runs = list(runs)
    several = len({processor_family(run.machine) for run in runs}) > 1
    rows = []
    for run in runs:
        others = [level for name, level in run.levels.items() if name != factor]
        block = str([run.metric, *others])
        value = study.sign(run.metric) * run.value
        rows.append((block, run.levels[factor], _seed_block(run, several), value))
    frame = pd.DataFrame(rows, columns=['block', 'level', 'seed', 'value'])
    values = frame.pivot(index='block', columns=['level', 'seed'], values='value')
    complete = values.notna().T.groupby('level').any().all()
    means = values[complete].mean(skipna=False).unstack('level')
    return means.reindex(columns=list(study.factors[factor]))


def _seed_block(run: StudyRun, several: bool) -> int | str:
    """A block of the linear model: a seed, on one of several families of processors."""
    return f'{processor_family(run.machine)}, seed {run.seed}' if several else run.seed


def fit_levels(values: pd.DataFrame) -> tuple[RegressionResults, pd.DataFrame]:
    """Fit one linear model of level and seed, which is a block, to the values of `seed_means`.

    Returns:
        The model, and a row for each level that selects its coefficient.
    """
    cells = values.dropna(axis='columns', how='all').stack().dropna()
    seeds, names = cells.index.get_level_values(0), cells.index.get_level_values(1)
    levels = pd.get_dummies(names, dtype=float)
    blocks = pd.get_dummies(seeds, dtype=float, drop_first=True)
    # Also without residual degrees of freedom, or with levels that share no seeds.
    with np.errstate(invalid='ignore', divide='ignore'), warnings.catch_warnings():
        warnings.simplefilter('ignore', ModelWarning)
        model = OLS(cells.to_numpy(), np.hstack([levels, blocks])).fit()
    return model, pd.DataFrame(np.eye(levels.shape[1], len(model.params)), index=levels.columns)


def contrasts(
    model: RegressionResults, rows: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the estimates of contrasts, their standard errors and the correlation of the
    estimates.
    """
    covariance = np.atleast_2d(model.cov_params(r_matrix=rows))
    errors = np.sqrt(np.diag(covariance).clip(min=0)).clip(min=SMALLEST_ERROR)
    unscaled = rows @ model.normalized_cov_params @ rows.T
    lengths = np.sqrt(np.diag(unscaled))
    return rows @ model.params, errors, unscaled / np.outer(lengths, lengths)


def compare_all(
    values: pd.DataFrame, reference: str, family: Family = ONE_TEST
) -> list[Comparison]:
    """Compare every level with the reference by Dunnett's test in one linear model of level and
    seed.

    `scipy.stats.dunnett` has no blocks, so the distribution of the largest of the t statistics is
    drawn.

    Args:
        values: from `seed_means`.
        family: `number` is ignored, because all levels are one family.
    """
    model, levels = fit_levels(values)
    others = [level for level in values.columns if level in levels.index and level != reference]
    if reference not in levels.index or not others:
        return []
    rows = (levels.loc[others] - levels.loc[reference]).to_numpy()
    if not model.df_resid > 0:
        return [
            Comparison(level, reference, Interval(float(value)), math.nan, UNTESTED)
            for level, value in zip(others, rows @ model.params)
        ]
    estimates, errors, correlation = contrasts(model, rows)
    largest = _largest_t(correlation.round(6).tobytes(), len(others), int(model.df_resid))
    two_sided = float(np.quantile(largest, 1 - family.alpha))
    one_sided = float(np.quantile(largest, 1 - 2 * family.alpha))
    compared = []
    for level, value, error in zip(others, estimates, errors):
        comparison = _compare(
            values,
            pair=(level, reference),
            estimate=(float(value), float(error)),
            limits=(two_sided, one_sided),
            p=float(np.mean(largest >= abs(value) / error)),
            margin=family.margin,
        )
        compared.append(comparison)
    return compared


@functools.lru_cache(maxsize=256)
def _largest_t(correlation: bytes, number: int, freedom: int) -> np.ndarray:
    """Draw the largest absolute value of correlated t statistics, the same values at every call."""
    shape = np.frombuffer(correlation).reshape(number, number)
    draws = stats.multivariate_t(shape=shape, df=freedom, allow_singular=True).rvs(
        DRAWS, random_state=0
    )
    return np.abs(draws.reshape(DRAWS, number)).max(axis=1)


def compare_pairs(
    values: pd.DataFrame, pairs: Sequence[tuple[str, str]], family: Family
) -> list[Comparison]:
    """Compare pairs of levels in one linear model of level and seed, with Bonferroni's correction
    for the family.
    """
    model, levels = fit_levels(values)
    freedom = model.df_resid
    alpha = family.alpha / family.number
    compared = []
    for first, second in pairs:
        if not {first, second} <= set(levels.index) or not freedom > 0:
            difference = Interval(float(values[first].mean() - values[second].mean()))
            compared.append(Comparison(first, second, difference, math.nan, UNTESTED))
            continue
        row = (levels.loc[[first]] - levels.loc[second]).to_numpy()
        (value,), (error,), _ = contrasts(model, row)
        uncorrected = 2 * float(stats.t.sf(abs(value / error), freedom))
        comparison = _compare(
            values,
            pair=(first, second),
            estimate=(float(value), float(error)),
            limits=(
                float(stats.t.ppf(1 - alpha / 2, freedom)),
                float(stats.t.ppf(1 - alpha, freedom)),
            ),
            p=min(1.0, uncorrected * family.number),
            margin=family.margin,
        )
        compared.append(comparison)
    return compared


def like_none(values: pd.DataFrame) -> set[str]:
    """Levels that cannot be told from the control without attention (Dunnett's test, 5 % for all),
    and the control.

    Args:
        values: from `seed_means`. Without results of the control, no level can be told from it.
    """
    if NONE not in values or values[NONE].isna().all():
        return set(values.columns)
    different = set()
    for pair in compare_all(values, NONE):
        if pair.verdict in (BETTER, WORSE):
            different.add(pair.first)
    return set(values.columns) - different


def unless_like_none(pairs: Sequence[Comparison], like: set[str]) -> list[Comparison]:
    """Replace the verdict on each two levels of which neither differs from the control."""
    judged = []
    for pair in pairs:
        if pair.verdict != UNTESTED and {pair.first, pair.second} <= like:
            pair = replace(pair, verdict=LIKE_NONE)
        judged.append(pair)
    return judged


def _compare(
    values: pd.DataFrame,
    *,
    pair: tuple[str, str],
    estimate: tuple[float, float],
    limits: tuple[float, float],
    p: float,
    margin: float,
) -> Comparison:
    """Judge a difference: two one-sided tests of equivalence first, then the sign.

    Args:
        estimate: difference and its standard error.
        limits: quantiles for the interval and for the one-sided tests, in standard errors.
        margin: as in `Family`.
    """
    first, second = pair
    value, error = estimate
    two_sided, one_sided = limits
    seeds = int(min(values[first].count(), values[second].count()))
    interval = Interval(value, value - two_sided * error, value + two_sided * error, seeds)
    if margin and abs(value) + one_sided * error < margin:
        verdict = EQUIVALENT
    elif interval.low > 0:
        verdict = BETTER
    elif interval.high < 0:
        verdict = WORSE
    else:
        verdict = UNDECIDED
    return Comparison(first, second, interval, p, verdict)


def equal_variance_p(values: pd.DataFrame) -> float:
    """P-value of Brown and Forsythe's test that all levels have the same variance; NaN without
    residuals.
    """
    groups = []
    for _, residuals in values.sub(values.mean(axis='columns'), axis='index').items():
        group = residuals.dropna().to_numpy()
        if len(group) > 1:
            groups.append(group)
    if len(groups) < 2:
        return math.nan
    return float(stats.levene(*groups, center='median').pvalue)


def detectable(std: float, seeds: int, tests: int, alpha: float = ALPHA) -> float:
    """Difference of two levels that a study detects with a probability of 80 %, for a standard
    deviation over seeds.
    """
    if seeds < 2:
        return math.inf
    freedom = 2 * (seeds - 1)
    limit = stats.t.ppf(1 - alpha / (2 * max(tests, 1)), freedom) + stats.t.ppf(POWER, freedom)
    return float(limit * std * math.sqrt(2 / seeds))


def pareto(costs: Sequence[float], values: Sequence[float]) -> list[bool]:
    """Mark the points on the Pareto front: no other point is as cheap and better, or cheaper and as
    good.
    """
    points = list(zip(costs, values))
    return [not _is_dominated(point, points) for point in points]


def _is_dominated(point: tuple[float, float], points: Sequence[tuple[float, float]]) -> bool:
    cost, value = point
    for other_cost, other_value in points:
        equal = (other_cost, other_value) == point
        if other_cost <= cost and other_value >= value and not equal:
            return True
    return False

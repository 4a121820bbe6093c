"""Means and paired tests of results, and the verdicts on claims that follow from them."""
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import pandas as pd
from scipy import stats
from statsmodels.stats.multitest import multipletests

from mmflatten.studies.runs import BEST, FINISHED, StudyRun, matches
from mmflatten.studies.study import Study, StudyError

ALPHA = 0.05
BETTER, WORSE, NOISE, UNTESTED = 'better', 'worse', 'inside the noise', 'too few seeds'


@dataclass(frozen=True)
class Interval:
    """Mean and 95 % confidence interval (Student's t). The interval is NaN for a single value."""

    mean: float
    low: float
    high: float
    number: int

    def text(self, sign: int = 1) -> str:
        low, high = sorted((sign * self.low, sign * self.high))
        return f'{sign * self.mean:.4g}' + (f' [{low:.4g}, {high:.4g}]' if self.number > 1 else '')


@dataclass(frozen=True)
class Comparison:
    """Comparison of two levels over their common seeds. A positive difference means that the first is better."""

    first: str
    second: str
    difference: Interval
    p: float  # paired t-test; NaN if not tested
    p_holm: float = math.nan  # corrected for its family

    @property
    def p_text(self) -> str:
        if math.isnan(self.p_holm):
            return ''
        return f'{self.p_holm:.3f}' if self.p_holm >= .0005 else '<0.001'

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


def seed_means(study: Study, runs: Iterable[StudyRun], factor: str) -> pd.DataFrame:
    """Average each level and seed over the combinations of the other factors that have all levels.

    A seed counts once, because its runs are not independent. A seed that a level lacks in one of these combinations is
    left out of this level.

    Returns:
        Metrics, negated if lower is better: a column for each level of the factor, a row for each seed.
    """
    rows = []
    for run in runs:
        block = str([run.metric, *(level for name, level in run.levels.items() if name != factor)])
        rows.append((block, run.levels[factor], run.seed, study.sign(run.metric) * run.value))
    frame = pd.DataFrame(rows, columns=['block', 'level', 'seed', 'value'])
    values = frame.pivot(index='block', columns=['level', 'seed'], values='value')
    complete = values.notna().T.groupby('level').any().all()
    return values[complete].mean(skipna=False).unstack('level').reindex(columns=list(study.factors[factor]))


def compare(first: str, second: str, values: pd.DataFrame) -> Comparison:
    """Compare two levels, paired by seed. Not tested if there are fewer than two different differences.

    Args:
        values: from `seed_means`.
    """
    differences = (values[first] - values[second]).dropna().to_numpy()
    if len(differences) > 1 and not differences.any():
        return Comparison(first, second, interval(differences), 1.)
    if len(differences) < 2 or np.allclose(differences, differences[0], rtol=1e-9, atol=0):
        alone = replace(interval(differences), low=math.nan, high=math.nan)
        return Comparison(first, second, alone, math.nan)
    return Comparison(first, second, interval(differences), float(stats.ttest_1samp(differences, 0).pvalue))


def holm(family: Sequence[Comparison]) -> list[Comparison]:
    """Correct the p-values of comparisons that are judged together (Holm). Untested ones are left as they are."""
    tested = [item.p for item in family if not math.isnan(item.p)]
    corrected = iter(multipletests(tested, ALPHA, method='holm')[1] if tested else ())
    return [item if math.isnan(item.p) else replace(item, p_holm=float(next(corrected))) for item in family]


def pareto(costs: Sequence[float], values: Sequence[float]) -> list[bool]:
    """Mark the points on the Pareto front: no other point is as cheap and better, or cheaper and as good."""
    points = list(zip(costs, values))
    return [not any(other[0] <= cost and other[1] >= value and other != (cost, value) for other in points)
            for cost, value in points]


def judge(study: Study, runs: Sequence[StudyRun]) -> list[tuple[str, list[Comparison]]]:
    """Judge the claims of a study by finished runs of one mode, with Holm's correction over the pairs of all claims.

    Returns:
        For each claim its verdict, and a comparison of each two neighbours in its order.

    Raises:
        StudyError: a claim includes runs with different metrics.
    """
    pairs = []
    for claim in study.claims:
        factor = study.factor_of(claim)
        chosen = [run for run in runs if matches(run.levels, {factor: claim.order, **claim.where})]
        metrics = sorted({run.metric for run in chosen})
        if len(metrics) > 1:
            raise StudyError(f'claims: expected runs with one metric for {claim.text}, got {", ".join(metrics)}. '
                             'Narrow it with `where`.')
        values = seed_means(study, chosen, factor)
        pairs.append([compare(first, second, values) for first, second in pairwise(claim.order)])
    corrected = iter(holm([pair for group in pairs for pair in group]))
    pairs = [[next(corrected) for _ in group] for group in pairs]
    return [(_verdict(group), group) for group in pairs]


def _verdict(pairs: Sequence[Comparison]) -> str:
    """Verdict on a whole order: one contradicted step refutes it, all steps must be significant to confirm it."""
    verdicts = {pair.verdict for pair in pairs}
    if WORSE in verdicts:
        return 'not reproduced'
    if UNTESTED in verdicts:
        return UNTESTED
    return 'reproduced' if verdicts == {BETTER} else NOISE


def claim_rows(study: Study, runs: Sequence[StudyRun], mode: str) -> list[list[str]]:
    """A row for every pair of each claim, judged by the finished runs of a mode; the first of them names the claim."""
    finished = [run for run in runs if run.state == FINISHED and run.mode == mode]
    rows = []
    for claim, (verdict, pairs) in zip(study.claims, judge(study, finished) if finished else ()):
        where = ', '.join(f'{factor} {"/".join(levels)}' for factor, levels in claim.where.items()) or 'all'
        tuned = ', tuned' if mode == BEST else ''
        first = [claim.text, f'{study.name}: {where}{tuned}', claim.source, f'**{verdict}**']
        for pair in pairs:
            rows.append([*first, f'{pair.first} - {pair.second}', pair.difference.text(), pair.p_text,
                         str(pair.difference.number)])
            first = [''] * len(first)
    return rows

"""Linear models of results, simultaneous comparisons with a reference, and the verdicts on claims."""
from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise, product

import numpy as np
import pandas as pd
from scipy import stats

from mmflatten_lab.studies.runs import ANCHOR, BEST, ENDED, FINISHED, GRID, StudyRun, cells, expand, make_run, matches
from mmflatten_lab.studies.study import Claim, Study, StudyError

ALPHA = 0.05
POWER = 0.8
BETTER, WORSE, EQUIVALENT, UNDECIDED, UNTESTED = ('better', 'worse', 'equivalent', 'undecided', 'too few seeds')
OPEN = (UNDECIDED, UNTESTED)
SILENT = 'below the anchors'
DRAWS = 40_000  # of the largest of several t statistics


@dataclass(frozen=True)
class Interval:
    """Estimate with its confidence interval, which is NaN if nothing is known about its error."""

    mean: float
    low: float = math.nan
    high: float = math.nan
    number: int = 1

    def text(self, sign: int = 1) -> str:
        low, high = sorted((sign * self.low, sign * self.high))
        return f'{sign * self.mean:.4g}' + ('' if math.isnan(self.low) else f' [{low:.4g}, {high:.4g}]')


@dataclass(frozen=True)
class Comparison:
    """Difference of two levels with its simultaneous interval. A positive difference means that the first is better."""

    first: str
    second: str
    difference: Interval
    p: float  # corrected for its family; NaN if not tested
    verdict: str

    @property
    def p_text(self) -> str:
        return '' if math.isnan(self.p) else f'{self.p:.3f}' if self.p >= .0005 else '<0.001'


@dataclass(frozen=True)
class Family:
    """Tests that are judged together.

    Attributes:
        margin: largest difference that does not matter; 0 for no tests of equivalence.
        alpha: rate of false verdicts over all tests of the family.
        number: of tests.
    """

    margin: float = 0.
    alpha: float = ALPHA
    number: int = 1


class LinearModel:
    """Ordinary least squares on indicator variables.

    Args:
        design: one row per value.
        values: larger is better.
    """

    def __init__(self, design: np.ndarray, values: np.ndarray) -> None:
        self.inverse = np.linalg.pinv(design.T @ design)
        self.coefficients = self.inverse @ design.T @ values
        self.residuals = values - design @ self.coefficients
        self.freedom = len(values) - int(np.linalg.matrix_rank(design))
        self.variance = float(self.residuals @ self.residuals) / self.freedom if self.freedom > 0 else math.nan

    def contrasts(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return estimates of contrasts, their standard errors and the correlation of the estimates."""
        spread = rows @ self.inverse @ rows.T
        lengths = np.sqrt(np.diag(spread).clip(min=0))
        return (rows @ self.coefficients, math.sqrt(self.variance) * lengths,
                spread / np.outer(lengths, lengths).clip(min=1e-30))


def mean_interval(values: Sequence[float]) -> Interval:
    """Mean of values with its 95 % confidence interval (Student's t)."""
    mean = float(np.mean(values)) if len(values) else math.nan
    if len(values) < 2:
        return Interval(mean, number=len(values))
    half = float(stats.sem(values) * stats.t.ppf(1 - ALPHA / 2, len(values) - 1))
    return Interval(mean, mean - half, mean + half, len(values))


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


def level_model(values: pd.DataFrame) -> tuple[LinearModel, list[str]]:
    """Fit one linear model of level and seed to the values of `seed_means`. Returns it with the levels in its order."""
    values = values.dropna(axis='columns', how='all').dropna(axis='index', how='all')
    rows, columns = np.nonzero(values.notna().to_numpy())
    design = np.zeros((len(rows), values.shape[1] + values.shape[0]))
    design[np.arange(len(rows)), columns] = 1
    design[np.arange(len(rows)), values.shape[1] + rows] = 1
    return LinearModel(design, values.to_numpy()[rows, columns]), list(values.columns)


def compare_all(values: pd.DataFrame, reference: str, family: Family = Family()) -> list[Comparison]:
    """Compare every level with the reference (Dunnett's test in one linear model of level and seed).

    Args:
        values: from `seed_means`.
        family: `number` is ignored, because all levels are one family.
    """
    model, levels = level_model(values)
    others = [level for level in levels if level != reference]
    if reference not in levels or not others:
        return []
    rows = _pairs(model, levels, [(level, reference) for level in others])
    estimates, errors, correlation = model.contrasts(rows)
    if not model.freedom > 0:
        return [Comparison(level, reference, Interval(float(value)), math.nan, UNTESTED)
                for level, value in zip(others, estimates)]
    largest = _largest_t(correlation.round(6).tobytes(), len(others), model.freedom)
    wide, narrow = (float(np.quantile(largest, 1 - level)) for level in (family.alpha, 2 * family.alpha))
    ratios = np.abs(estimates) / errors.clip(min=1e-12)
    return [_comparison(level, reference, (float(value), float(error)), (wide, narrow),
                        float(np.mean(largest >= ratio)), family, _seeds(values, level, reference))
            for level, value, error, ratio in zip(others, estimates, errors, ratios)]


def compare_pairs(values: pd.DataFrame, pairs: Sequence[tuple[str, str]], family: Family) -> list[Comparison]:
    """Compare pairs of levels in one linear model of level and seed, with Bonferroni's correction for the family."""
    model, levels = level_model(values)
    found = []
    for pair in pairs:
        if not set(pair) <= set(levels) or not model.freedom > 0:
            means = values.mean()
            found.append(Comparison(*pair, Interval(float(means[pair[0]] - means[pair[1]])), math.nan, UNTESTED))
            continue
        (estimate,), (error,), _ = model.contrasts(_pairs(model, levels, [pair]))
        share = family.alpha / family.number
        limits = [float(stats.t.ppf(1 - tail, model.freedom)) for tail in (share / 2, share)]
        p = 2 * float(stats.t.sf(abs(estimate) / max(error, 1e-12), model.freedom)) * family.number
        found.append(_comparison(*pair, (float(estimate), float(error)), (limits[0], limits[1]), min(p, 1.), family,
                                 _seeds(values, *pair)))
    return found


def _seeds(values: pd.DataFrame, first: str, second: str) -> int:
    return int(min(values[first].count(), values[second].count()))


def _pairs(model: LinearModel, levels: Sequence[str], pairs: Sequence[tuple[str, str]]) -> np.ndarray:
    rows = np.zeros((len(pairs), len(model.coefficients)))
    for row, (first, second) in zip(rows, pairs):
        row[levels.index(first)], row[levels.index(second)] = 1, -1
    return rows


@functools.lru_cache(maxsize=256)
def _largest_t(correlation: bytes, number: int, freedom: int) -> np.ndarray:
    """Draws of the largest absolute value of correlated t statistics, the same at every call."""
    random = np.random.default_rng(0)
    matrix = np.frombuffer(correlation).reshape(number, number)
    values, vectors = np.linalg.eigh(matrix)
    normal = random.standard_normal((DRAWS, number)) @ (vectors * np.sqrt(values.clip(min=0))).T
    return np.abs(normal).max(axis=1) / np.sqrt(random.chisquare(freedom, DRAWS) / freedom)


def _comparison(first: str, second: str, estimate: tuple[float, float], limits: tuple[float, float], p: float,
                family: Family, seeds: int) -> Comparison:
    """Judge a difference: two one-sided tests of equivalence first, then the sign.

    Args:
        estimate: difference and its standard error.
        limits: quantiles for the interval and for the one-sided tests, in standard errors.
    """
    value, error = estimate
    interval = Interval(value, value - limits[0] * error, value + limits[0] * error, seeds)
    if family.margin and abs(value) + limits[1] * error < family.margin:
        verdict = EQUIVALENT
    else:
        verdict = BETTER if interval.low > 0 else WORSE if interval.high < 0 else UNDECIDED
    return Comparison(first, second, interval, p, verdict)


def spread_test(values: pd.DataFrame) -> float:
    """P-value of Brown and Forsythe's test that the residuals of all levels have one spread; NaN without residuals."""
    groups = [column.dropna().to_numpy() for _, column in values.sub(values.mean(axis='columns'), axis='index').items()]
    groups = [group for group in groups if len(group) > 1]
    return float(stats.levene(*groups, center='median').pvalue) if len(groups) > 1 else math.nan


def detectable(spread: float, seeds: int, tests: int, alpha: float = ALPHA) -> float:
    """Difference of two levels that a study finds with a probability of 80 %, for a standard deviation over seeds."""
    if seeds < 2:
        return math.inf
    freedom = 2 * (seeds - 1)
    limit = stats.t.ppf(1 - alpha / (2 * max(tests, 1)), freedom) + stats.t.ppf(POWER, freedom)
    return float(limit * spread * math.sqrt(2 / seeds))


@dataclass(frozen=True)
class Effect:
    """What a level of a factor adds to the reference level of this factor.

    Attributes:
        within: level of the first factor for which it holds; '' for the mean over all combinations.
    """

    factor: str
    level: str
    reference: str
    within: str
    difference: Interval
    p: float


def effects(study: Study, runs: Sequence[StudyRun]) -> list[Effect]:
    """Main effects of all factors after the first, and the same within each level of the first.

    One linear model has all factors, their pairs and the seed. Intervals are corrected for all effects (Bonferroni).
    Empty if the runs are not a complete grid of at least two factors.
    """
    levels = {factor: [level for level in known if any(run.levels[factor] == level for run in runs)]
              for factor, known in study.factors.items()}
    levels = {factor: known for factor, known in levels.items() if len(known) > 1}
    cells = {tuple(run.levels[factor] for factor in levels) for run in runs}
    if len(levels) < 2 or len(cells) < math.prod(map(len, levels.values())) or len({run.metric for run in runs}) > 1:
        return []
    seeds = sorted({run.seed for run in runs})
    values = np.array([study.sign(run.metric) * run.value for run in runs if run.value is not None])

    def row(chosen: Mapping[str, str], seed: int | None) -> np.ndarray:
        parts = [np.array([chosen[factor] == level for level in known], float) for factor, known in levels.items()]
        pairs = [np.outer(first, second).ravel() for first, second in combinations(parts, 2)]
        return np.concatenate([*parts, *pairs, np.array([other == seed for other in seeds], float)])

    model = LinearModel(np.stack([row(run.levels, run.seed) for run in runs]), values)
    if not model.freedom > 0:
        return []
    first, *others = levels
    grid = [dict(zip(levels, names)) for names in product(*levels.values())]
    found, rows = [], []
    for factor in others:
        reference, *further = levels[factor]
        for level, within in product(further, ['', *levels[first]]):
            cells_of = [names for names in grid if within in ('', names[first])]
            rows.append(np.mean([row({**names, factor: level}, None) - row({**names, factor: reference}, None)
                                 for names in cells_of], axis=0))
            found.append((factor, level, reference, within))
    estimates, errors, _ = model.contrasts(np.stack(rows))
    limit = float(stats.t.ppf(1 - ALPHA / (2 * len(rows)), model.freedom))
    return [Effect(*names, Interval(float(value), float(value - limit * error), float(value + limit * error)),
                   min(1., 2 * float(stats.t.sf(abs(value) / max(error, 1e-12), model.freedom)) * len(rows)))
            for names, value, error in zip(found, estimates, errors)]


def pareto(costs: Sequence[float], values: Sequence[float]) -> list[bool]:
    """Mark the points on the Pareto front: no other point is as cheap and better, or cheaper and as good."""
    points = list(zip(costs, values))
    return [not any(other[0] <= cost and other[1] >= value and other != (cost, value) for other in points)
            for cost, value in points]


def judge(study: Study, runs: Sequence[StudyRun]) -> list[tuple[str, list[Comparison]]]:
    """Judge the claims of a study by finished runs of one mode, and of anchors.

    Each table, the runs that a claim's `where` selects, has one linear model. All pairs of all claims are one family,
    and the looks share its error. The first look that settles a claim decides it. A claim is not judged where all its
    levels are below all anchors.

    Returns:
        For each claim its verdict, and a comparison of each two neighbours in its order.

    Raises:
        StudyError: a claim includes runs with different metrics.
    """
    found: list[tuple[str, list[Comparison]]] = [(UNTESTED, []) for _ in study.claims]
    for number in study.seed_steps:
        seen = [run for run in runs if run.seed in study.seeds[:number]]
        found = [_judge_claim(study, seen, claim) if result[0] in OPEN else result
                 for claim, result in zip(study.claims, found)]
    return found


def alpha_of_look(study: Study) -> float:
    """Return the rate of false verdicts that each look may have; a look at one seed cannot judge."""
    return ALPHA / max(1, sum(number > 1 for number in study.seed_steps))


def _judge_claim(study: Study, runs: Sequence[StudyRun], claim: Claim) -> tuple[str, list[Comparison]]:
    factor = study.factor_of(claim)
    chosen = [run for run in runs if run.mode != ANCHOR and matches(run.levels, claim.where)]
    metrics = sorted({run.metric for run in chosen if run.levels[factor] in claim.order})
    if len(metrics) > 1:
        raise StudyError(f'claims: expected runs with one metric for {claim.text}, got {", ".join(metrics)}. '
                         'Narrow it with `where`.')
    family = Family(study.margin.get(metrics[0], 0.) if metrics else 0., alpha_of_look(study),
                    sum(len(other.order) - 1 for other in study.claims))
    values = _claim_values(study, chosen, factor, claim)
    pairs = compare_pairs(values, list(pairwise(claim.order)), family)
    anchors = [study.sign(run.metric) * run.value for run in runs if run.mode == ANCHOR and run.metric in metrics]
    silent = bool(anchors) and values[list(claim.order)].mean().max() < min(anchors)
    return SILENT if silent else _verdict(pairs), pairs


def added_runs(study: Study, results: Mapping[str, StudyRun]) -> list[StudyRun]:
    """Runs of further seeds, for the levels of claims that the looks so far left open.

    Args:
        results: runs by name. Nothing is added while runs of the last look have not ended.
    """
    seen, added = expand(study), []
    for before, number in pairwise(study.seed_steps):
        known = [results.get(run.name, run) for run in seen if run.mode in (GRID, ANCHOR)]
        if any(run.state not in ENDED for run in known):
            break
        verdicts = judge(study, [run for run in known if run.state == FINISHED])
        patterns = [{study.factor_of(claim): claim.order, **claim.where}
                    for claim, (verdict, _) in zip(study.claims, verdicts) if verdict in OPEN]
        new = [make_run(study, levels, seed) for levels, seeds in cells(study) for seed in study.seeds[before:number]
               if seed in seeds and any(matches(levels, pattern) for pattern in patterns)]
        seen, added = [*seen, *new], [*added, *new]
    return added


def _claim_values(study: Study, runs: Sequence[StudyRun], factor: str, claim: Claim) -> pd.DataFrame:
    """Values of all levels of a table, or of those of the claim alone if some combinations lack other levels."""
    values = seed_means(study, runs, factor)
    if values[list(claim.order)].notna().any().all():
        return values
    return seed_means(study, [run for run in runs if run.levels[factor] in claim.order], factor)


def _verdict(pairs: Sequence[Comparison]) -> str:
    """Verdict on a whole order: one step in the other direction refutes it, all steps must be better to confirm it."""
    verdicts = {pair.verdict for pair in pairs}
    for verdict, text in ((WORSE, 'not reproduced'), (UNTESTED, UNTESTED), (UNDECIDED, UNDECIDED)):
        if verdict in verdicts:
            return text
    return 'reproduced' if verdicts == {BETTER} else EQUIVALENT


def claim_rows(study: Study, runs: Sequence[StudyRun], mode: str) -> list[list[str]]:
    """A row for every pair of each claim, judged by the finished runs of a mode; the first of them names the claim."""
    finished = [run for run in runs if run.state == FINISHED and run.mode in (mode, ANCHOR)]
    rows, known = [], any(run.mode == mode for run in finished)
    for claim, (verdict, pairs) in zip(study.claims, judge(study, finished) if known else ()):
        where = ', '.join(f'{factor} {"/".join(levels)}' for factor, levels in claim.where.items()) or 'all'
        tuned = ', tuned' if mode == BEST else ''
        first = [claim.text, f'{study.name}: {where}{tuned}', claim.source, f'**{verdict}**']
        for pair in pairs:
            rows.append([*first, f'{pair.first} - {pair.second}', pair.difference.text(), pair.p_text,
                         str(pair.difference.number)])
            first = [''] * len(first)
    return rows

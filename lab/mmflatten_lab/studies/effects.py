"""Effects of the factors of a study: what each level adds to the first level of its factor."""
from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, product

import numpy as np
import pandas as pd
from scipy import stats

from mmflatten_lab.studies.runs import StudyRun
from mmflatten_lab.studies.statistics import ALPHA, Interval, contrasts, corrected_p, fit
from mmflatten_lab.studies.study import Study


@dataclass(frozen=True)
class Effect:
    """Difference between a level of a factor and the first level of this factor.

    Attributes:
        condition: level of the first factor for which the difference holds; '' for the mean over all its levels.
    """

    factor: str
    level: str
    reference: str
    condition: str
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
    values = np.array([study.sign(run.metric) * run.value for run in runs if run.value is not None])
    seeds = pd.get_dummies([run.seed for run in runs], drop_first=True).to_numpy(float)
    indicators = {cell: _indicators(levels, cell) for cell in product(*levels.values())}
    design = [indicators[tuple(run.levels[factor] for factor in levels)] for run in runs]
    model = fit(np.hstack([design, seeds]), values)
    if not model.df_resid > 0:
        return []
    rows = dict(_contrast_rows(levels, indicators))
    estimates, errors, _ = contrasts(model, np.pad(list(rows.values()), ((0, 0), (0, seeds.shape[1]))))
    limit = stats.t.ppf(1 - ALPHA / (2 * len(rows)), model.df_resid)
    return [Effect(*names, Interval(float(value), float(value - limit * error), float(value + limit * error)),
                   corrected_p(value / error, model.df_resid, len(rows)))
            for names, value, error in zip(rows, estimates, errors)]


def _contrast_rows(levels: dict[str, list[str]], indicators: dict[tuple[str, ...], np.ndarray],
                   ) -> Iterator[tuple[tuple[str, str, str, str], np.ndarray]]:
    """Yield (factor, level, reference, condition) of each effect, and its contrast: a mean of differences of cells."""
    for place, (factor, (reference, *others)) in list(enumerate(levels.items()))[1:]:
        for level, condition in product(others, ['', *next(iter(levels.values()))]):
            differences = [indicators[*cell[:place], level, *cell[place + 1:]]
                           - indicators[*cell[:place], reference, *cell[place + 1:]]
                           for cell in indicators if condition in ('', cell[0])]
            yield (factor, level, reference, condition), np.mean(differences, axis=0)


def _indicators(levels: dict[str, list[str]], cell: Sequence[str]) -> np.ndarray:
    """Row of the design for a combination of levels: intercept, factors and pairs of factors, without first levels."""
    factors = [np.array([name == level for name in known[1:]], float) for known, level in zip(levels.values(), cell)]
    return np.concatenate([[1.], *factors, *(np.outer(*pair).ravel() for pair in combinations(factors, 2))])

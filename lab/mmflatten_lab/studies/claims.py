"""Verdicts on the claims of a study, and the seeds that undecided claims need."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from mmflatten_lab.studies.comparisons import (
    ALPHA,
    BETTER,
    EQUIVALENT,
    LIKE_NONE,
    UNDECIDED,
    UNTESTED,
    WORSE,
    Comparison,
    Family,
    Interval,
)
from mmflatten_lab.studies.controls import NONE
from mmflatten_lab.studies.families import shared_families
from mmflatten_lab.studies.runs import (
    BASELINE,
    ENDED,
    GRID,
    StudyRun,
    cells,
    expand,
    finished_runs,
    make_run,
    matches,
)
from mmflatten_lab.studies.study import Claim, Study
from mmflatten_lab.studies.study_fields import StudyError

if TYPE_CHECKING:
    import pandas as pd

NOT_REPRODUCED = 'not reproduced'
REPRODUCED = 'reproduced'
OPEN = (UNDECIDED, UNTESTED, LIKE_NONE)
# verdict on one step -> verdict on the whole order; the first one that occurs decides
DECISIVE = {
    WORSE: NOT_REPRODUCED,
    UNTESTED: UNTESTED,
    LIKE_NONE: LIKE_NONE,
    UNDECIDED: UNDECIDED,
}
Judgement = tuple[str, list[Comparison]]  # verdict, and the comparisons of neighbouring levels
BELOW_BASELINES = 'below the baselines'


def judge(study: Study, runs: Sequence[StudyRun]) -> list[Judgement]:
    """Judge the claims of a study by finished runs of the grid, and by baselines.

    Each table, the runs that a claim's `where` selects, has one linear model. All pairs of all
    claims are one family, whose error rate the interim analyses share. The first analysis that
    settles a claim decides it. Runs of several families of processors are judged on those that have
    all levels of the claim. A claim is not judged if all its levels are below all baselines, and
    neither is a step between two levels of the first factor that cannot be told from the control
    without attention.

    Returns:
        For each claim its verdict, and a comparison of each two neighbours in its order.

    Raises:
        StudyError: a claim includes runs with different metrics.
    """
    judgements: list[Judgement] = [(UNTESTED, []) for _ in study.claims]
    for number in study.seed_counts:
        known = [run for run in runs if run.seed in study.seeds[:number]]
        for index, claim in enumerate(study.claims):
            verdict, _ = judgements[index]
            if verdict in OPEN:
                judgements[index] = _judge_claim(study, known, claim)
    return judgements


def alpha_per_analysis(study: Study) -> float:
    """Return the rate of false verdicts of each interim analysis with more than one seed."""
    return ALPHA / max(1, sum(number > 1 for number in study.seed_counts))


def _judge_claim(study: Study, runs: Sequence[StudyRun], claim: Claim) -> Judgement:
    # pandas and statsmodels take seconds, and most commands judge nothing.
    from mmflatten_lab.studies import statistics

    factor = study.factor_of(claim)
    chosen = [run for run in runs if run.mode != BASELINE and matches(run.levels, claim.where)]
    metrics = _metrics_of_claim(chosen, factor, claim)
    family = Family(
        margin=study.margin.get(metrics[0], 0.0) if metrics else 0.0,
        alpha=alpha_per_analysis(study),
        number=sum(len(other.order) - 1 for other in study.claims),
    )
    shared = shared_families(chosen, factor, claim.order)
    if chosen and not shared:
        return UNTESTED, [_untested(first, second) for first, second in pairwise(claim.order)]
    chosen = shared
    values = _claim_values(study, chosen, factor, claim)
    pairs = statistics.compare_pairs(values, list(pairwise(claim.order)), family)
    # Only the first factor has a control without attention.
    if isinstance(study.controls, list) and factor == next(iter(study.factors)):
        order = list(dict.fromkeys([*claim.order, NONE]))
        compared = [run for run in chosen if run.levels[factor] in order]
        levels = statistics.seed_means(study, compared, factor)
        pairs = statistics.unless_like_none(pairs, statistics.like_none(levels[order]))
    best = values[list(claim.order)].mean().max()
    if _is_below_baselines(study, runs, best, metrics):
        return BELOW_BASELINES, pairs
    return _verdict(pairs), pairs


def _untested(first: str, second: str) -> Comparison:
    """A step of a claim whose levels share no family of processors."""
    return Comparison(first, second, Interval(math.nan), math.nan, UNTESTED)


def _metrics_of_claim(runs: Sequence[StudyRun], factor: str, claim: Claim) -> list[str]:
    """Metric of the runs with a level of the claim, in a list; empty without runs."""
    metrics = sorted({run.metric for run in runs if run.levels[factor] in claim.order})
    if len(metrics) > 1:
        raise StudyError(
            f'claims: expected runs with one metric for {claim.text}, got {", ".join(metrics)}. '
            'Narrow it with `where`.'
        )
    return metrics


def _claim_values(
    study: Study, runs: Sequence[StudyRun], factor: str, claim: Claim
) -> pd.DataFrame:
    """Values of all levels of a table, or of the claim's levels alone if the others have gaps."""
    from mmflatten_lab.studies.statistics import seed_means

    values = seed_means(study, runs, factor)
    if values[list(claim.order)].notna().any().all():
        return values
    claimed = [run for run in runs if run.levels[factor] in claim.order]
    return seed_means(study, claimed, factor)


def _is_below_baselines(
    study: Study, runs: Sequence[StudyRun], best: float, metrics: Sequence[str]
) -> bool:
    """Return True if the best level of a claim is worse than every baseline."""
    values = []
    for run in runs:
        if run.mode == BASELINE and run.metric in metrics:
            values.append(study.sign(run.metric) * run.value)
    return bool(values) and best < min(values)


def _verdict(pairs: Sequence[Comparison]) -> str:
    """Verdict on a whole order: one reversed step refutes it, all steps must be better to
    confirm it.
    """
    verdicts = {pair.verdict for pair in pairs}
    for verdict, text in DECISIVE.items():
        if verdict in verdicts:
            return text
    return REPRODUCED if verdicts == {BETTER} else EQUIVALENT


def added_runs(study: Study, results: Mapping[str, StudyRun]) -> list[StudyRun]:
    """Runs of further seeds, for the levels of claims that the interim analyses so far left open.

    Args:
        results: runs by name. Nothing is added before all runs of the last analysis have ended.
    """
    planned = expand(study)
    added: list[StudyRun] = []
    for before, number in pairwise(study.seed_counts):
        known = [results.get(run.name, run) for run in planned if run.mode in (GRID, BASELINE)]
        if any(run.state not in ENDED for run in known):
            break
        new = _runs_of_seeds(
            study,
            seeds=study.seeds[before:number],
            patterns=_open_patterns(study, judge(study, finished_runs(known))),
        )
        planned += new
        added += new
    return added


def _open_patterns(study: Study, judgements: Sequence[Judgement]) -> list[dict[str, list[str]]]:
    """Patterns of the cells on which the open claims depend."""
    patterns = []
    for claim, (verdict, _) in zip(study.claims, judgements):
        if verdict in OPEN:
            patterns.append({study.factor_of(claim): claim.order, **claim.where})
    return patterns


def _runs_of_seeds(
    study: Study, seeds: Sequence[int], patterns: Sequence[Mapping[str, list[str]]]
) -> list[StudyRun]:
    """Make the runs of some seeds, for the cells that match one of the patterns."""
    runs = []
    for levels, seeds_of_cell in cells(study):
        if not any(matches(levels, pattern) for pattern in patterns):
            continue
        for seed in seeds:
            if seed in seeds_of_cell:
                runs.append(make_run(study, levels, seed))
    return runs


def claim_rows(study: Study, runs: Sequence[StudyRun]) -> list[list[str]]:
    """A row for every pair of each claim, judged by the finished runs. The first row of a claim
    names it.
    """
    rows: list[list[str]] = []
    for claim, (verdict, pairs) in zip(study.claims, judge(study, finished_runs(runs))):
        conditions = [f'{factor} {"/".join(levels)}' for factor, levels in claim.where.items()]
        where = ', '.join(conditions) or 'all'
        first = [claim.text, f'{study.name}: {where}', claim.source, f'**{verdict}**']
        for pair in pairs:
            rows.append(
                [
                    *first,
                    f'{pair.first} - {pair.second}',
                    pair.difference.text(),
                    pair.p_text,
                    str(pair.difference.number),
                ]
            )
            first = [''] * len(first)
    return rows

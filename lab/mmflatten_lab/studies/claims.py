"""Verdicts on the claims of a study, and the seeds that undecided claims need."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

import pandas as pd

from mmflatten_lab.studies.controls import NONE
from mmflatten_lab.studies.runs import (
    BASELINE,
    ENDED,
    FINISHED,
    GRID,
    StudyRun,
    cells,
    expand,
    make_run,
    matches,
)
from mmflatten_lab.studies.statistics import (
    ALPHA,
    BETTER,
    EQUIVALENT,
    LIKE_NONE,
    UNDECIDED,
    UNTESTED,
    WORSE,
    Comparison,
    Family,
    compare_pairs,
    like_none,
    seed_means,
    unless_like_none,
)
from mmflatten_lab.studies.study import Claim, Study
from mmflatten_lab.studies.study_fields import StudyError

OPEN = (UNDECIDED, UNTESTED, LIKE_NONE)
BELOW_BASELINES = 'below the baselines'


def judge(study: Study, runs: Sequence[StudyRun]) -> list[tuple[str, list[Comparison]]]:
    """Judge the claims of a study by finished runs of the grid, and by baselines.

    Each table, the runs that a claim's `where` selects, has one linear model. All pairs of all
    claims are one family, whose error rate the interim analyses share. The first analysis that
    settles a claim decides it. A claim is not judged if all its levels are below all baselines, and
    neither is a step between two levels of the first factor that cannot be told from the control
    without attention.

    Returns:
        For each claim its verdict, and a comparison of each two neighbours in its order.

    Raises:
        StudyError: a claim includes runs with different metrics.
    """
    found: list[tuple[str, list[Comparison]]] = [(UNTESTED, []) for _ in study.claims]
    for number in study.seed_counts:
        known = [run for run in runs if run.seed in study.seeds[:number]]
        found = [
            _judge_claim(study, known, claim) if result[0] in OPEN else result
            for claim, result in zip(study.claims, found)
        ]
    return found


def alpha_per_analysis(study: Study) -> float:
    """Return the rate of false verdicts of each interim analysis. An analysis of one seed cannot
    judge.
    """
    return ALPHA / max(1, sum(number > 1 for number in study.seed_counts))


def _judge_claim(
    study: Study, runs: Sequence[StudyRun], claim: Claim
) -> tuple[str, list[Comparison]]:
    factor = study.factor_of(claim)
    chosen = [run for run in runs if run.mode != BASELINE and matches(run.levels, claim.where)]
    metrics = sorted({run.metric for run in chosen if run.levels[factor] in claim.order})
    if len(metrics) > 1:
        raise StudyError(
            f'claims: expected runs with one metric for {claim.text}, got {", ".join(metrics)}. '
            'Narrow it with `where`.'
        )
    family = Family(
        study.margin.get(metrics[0], 0.0) if metrics else 0.0,
        alpha_per_analysis(study),
        sum(len(other.order) - 1 for other in study.claims),
    )
    values = _claim_values(study, chosen, factor, claim)
    pairs = compare_pairs(values, list(pairwise(claim.order)), family)
    if isinstance(study.controls, list) and factor == next(iter(study.factors)):
        levels = seed_means(
            study, [run for run in chosen if run.levels[factor] in (*claim.order, NONE)], factor
        )
        pairs = unless_like_none(pairs, like_none(levels[[*dict.fromkeys([*claim.order, NONE])]]))
    baselines = [
        study.sign(run.metric) * run.value
        for run in runs
        if run.mode == BASELINE and run.metric in metrics
    ]
    below = bool(baselines) and values[list(claim.order)].mean().max() < min(baselines)
    return BELOW_BASELINES if below else _verdict(pairs), pairs


def added_runs(study: Study, results: Mapping[str, StudyRun]) -> list[StudyRun]:
    """Runs of further seeds, for the levels of claims that the interim analyses so far left open.

    Args:
        results: runs by name. Nothing is added before all runs of the last analysis have ended.
    """
    planned, added = expand(study), []
    for before, number in pairwise(study.seed_counts):
        known = [results.get(run.name, run) for run in planned if run.mode in (GRID, BASELINE)]
        if any(run.state not in ENDED for run in known):
            break
        verdicts = judge(study, [run for run in known if run.state == FINISHED])
        patterns = [
            {study.factor_of(claim): claim.order, **claim.where}
            for claim, (verdict, _) in zip(study.claims, verdicts)
            if verdict in OPEN
        ]
        new = [
            make_run(study, levels, seed)
            for levels, seeds in cells(study)
            for seed in study.seeds[before:number]
            if seed in seeds and any(matches(levels, pattern) for pattern in patterns)
        ]
        planned, added = [*planned, *new], [*added, *new]
    return added


def _claim_values(
    study: Study, runs: Sequence[StudyRun], factor: str, claim: Claim
) -> pd.DataFrame:
    """Values of all levels of a table, or only of those of the claim if some combinations miss
    other levels.
    """
    values = seed_means(study, runs, factor)
    if values[list(claim.order)].notna().any().all():
        return values
    return seed_means(study, [run for run in runs if run.levels[factor] in claim.order], factor)


def _verdict(pairs: Sequence[Comparison]) -> str:
    """Verdict on a whole order: one reversed step refutes it, and all steps must be better to
    confirm it.
    """
    verdicts = {pair.verdict for pair in pairs}
    for verdict, text in (
        (WORSE, 'not reproduced'),
        (UNTESTED, UNTESTED),
        (LIKE_NONE, LIKE_NONE),
        (UNDECIDED, UNDECIDED),
    ):
        if verdict in verdicts:
            return text
    return 'reproduced' if verdicts == {BETTER} else EQUIVALENT


def claim_rows(study: Study, runs: Sequence[StudyRun]) -> list[list[str]]:
    """A row for every pair of each claim, judged by the finished runs. The first row of a claim
    names it.
    """
    rows: list[list[str]] = []
    for claim, (verdict, pairs) in zip(
        study.claims, judge(study, [run for run in runs if run.state == FINISHED])
    ):
        where = (
            ', '.join(f'{factor} {"/".join(levels)}' for factor, levels in claim.where.items())
            or 'all'
        )
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

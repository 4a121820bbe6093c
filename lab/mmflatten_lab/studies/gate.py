"""The check before a grid: its seeds must be enough to know the mean of its reference."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

import numpy as np
from scipy import stats

from mmflatten_lab.studies.runs import FINISHED, GRID, StudyRun, matches
from mmflatten_lab.studies.study import Reference, Study
from mmflatten_lab.studies.study_fields import StudyError

LEVEL = 0.95  # of the interval


def reference_runs(study: Study, runs: Sequence[StudyRun]) -> list[StudyRun]:
    """Runs that end before all others start: the first seeds of each cell of the reference.

    Raises:
        StudyError: the grid has fewer seeds of such a cell, or no such cell.
    """
    if study.reference is None:
        return []
    cells = _cells(study.reference, runs)
    if not cells:
        raise StudyError(
            f'reference.where: expected a cell of the grid, got {study.reference.where}, which is'
            ' excluded. Name another.'
        )
    first: list[StudyRun] = []
    for name, members in cells.items():
        if len(members) < study.reference.seeds:
            raise StudyError(
                f'factors.seed: expected at least {study.reference.seeds} seeds of the reference'
                f' {name}, got {len(members)}. Add some, or remove `reference`.'
            )
        first += members[: study.reference.seeds]
    return first


def check_reference(
    study: Study, planned: Sequence[StudyRun], runs: Mapping[str, StudyRun]
) -> None:
    """Refuse a study whose seeds are too few for the spread of its reference.

    Args:
        planned: all runs of the study.
        runs: by name, with the results of `reference_runs`.

    Raises:
        StudyError: a run of the reference failed or lacks a metric, or the interval of the mean
            over the planned seeds of a cell is wider than the margin.
    """
    if study.reference is None:
        return
    for name, members in _cells(study.reference, planned).items():
        first = [runs[run.name] for run in members[: study.reference.seeds]]
        _check_cell(study.reference, name, first, planned=len(members))


def half_interval(values: Sequence[float], planned: int) -> float:
    """Half of the interval that the mean over `planned` seeds will have if their standard deviation
    is that of `values` (Student's t).
    """
    quantile = stats.t.ppf((1 + LEVEL) / 2, planned - 1)
    return float(quantile * np.std(values, ddof=1) / np.sqrt(planned))


def _check_cell(reference: Reference, name: str, runs: Sequence[StudyRun], *, planned: int) -> None:
    values = []
    for run in runs:
        if run.state != FINISHED:
            raise StudyError(
                f'reference: expected a finished run {run.name}, got one that {run.state}'
                f' ({run.error}). Mend it, then use --retry-failed.'
            )
        value = _metric(run, 'metric', reference.metric)
        if reference.minus:
            value -= _metric(run, 'minus', reference.minus)
        values.append(value)
    half = half_interval(values, planned)
    if half > reference.margin:
        what = reference.metric
        if reference.minus:
            what += f' minus {reference.minus}'
        shown = ', '.join(f'{value:.4g}' for value in values)
        raise StudyError(
            f'reference.margin: expected the mean of {what} of {name} over {planned} seeds to be'
            f' known to {reference.margin:g}, got {half:.3g} from the first ({shown}). A grid whose'
            ' reference does not repeat compares chance: train longer, at another rate or with more'
            ' seeds, or test more images.'
        )


def _metric(run: StudyRun, field: str, name: str) -> float:
    if name not in run.metrics:
        raise StudyError(
            f'reference.{field}: expected one of {", ".join(run.metrics)}, got {name}. Correct it.'
        )
    return run.metrics[name]


def _cells(reference: Reference, runs: Sequence[StudyRun]) -> dict[str, list[StudyRun]]:
    """Runs of the reference by the names of their levels, in the order of their seeds."""
    cells: dict[str, list[StudyRun]] = defaultdict(list)
    for run in runs:
        if run.mode == GRID and matches(run.levels, reference.where):
            cells[', '.join(run.levels.values())].append(run)
    return {name: sorted(members, key=_seed) for name, members in cells.items()}


def _seed(run: StudyRun) -> int:
    return run.seed

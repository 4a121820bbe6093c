"""The check before a grid: its reference must repeat from one seed to the next."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from mmflatten_lab.studies.runs import FINISHED, GRID, StudyRun, matches
from mmflatten_lab.studies.study import Reference, Study
from mmflatten_lab.studies.study_fields import StudyError

SEEDS = 2  # of the reference, before all others


def reference_runs(study: Study, runs: Sequence[StudyRun]) -> list[StudyRun]:
    """Runs that end before all others start: two seeds of each cell of the reference.

    Raises:
        StudyError: the grid has fewer than two seeds of such a cell, or no such cell.
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
        if len(members) < SEEDS:
            raise StudyError(
                f'factors.seed: expected at least {SEEDS} seeds of the reference {name}, got'
                f' {len(members)}. Add one, or remove `reference`.'
            )
        first += members[:SEEDS]
    return first


def check_reference(study: Study, runs: Mapping[str, StudyRun]) -> None:
    """Refuse a study whose reference does not repeat.

    Args:
        runs: by name, with the results of `reference_runs`.

    Raises:
        StudyError: a run of the reference failed or lacks the metric, or the seeds of a cell are
            further apart than the margin.
    """
    if study.reference is None:
        return
    for name, members in _cells(study.reference, list(runs.values())).items():
        _check_cell(study.reference, name, members[:SEEDS])


def _check_cell(reference: Reference, name: str, runs: Sequence[StudyRun]) -> None:
    values = []
    for run in runs:
        if run.state != FINISHED:
            raise StudyError(
                f'reference: expected a finished run {run.name}, got one that {run.state}'
                f' ({run.error}). Mend it, then use --retry-failed.'
            )
        if reference.metric not in run.metrics:
            raise StudyError(
                f'reference.metric: expected one of {", ".join(run.metrics)}, got'
                f' {reference.metric}. Correct it.'
            )
        values.append(run.metrics[reference.metric])
    spread = max(values) - min(values)
    if spread > reference.margin:
        shown = ', '.join(f'{value:.4g}' for value in values)
        raise StudyError(
            f'reference.margin: expected {reference.metric} of {name} within'
            f' {reference.margin:g} over {SEEDS} seeds, got {spread:.3g} ({shown}). A grid whose'
            ' reference does not repeat compares chance: train longer or at another rate.'
        )


def _cells(reference: Reference, runs: Sequence[StudyRun]) -> dict[str, list[StudyRun]]:
    """Runs of the reference by the names of their levels, in the order of their seeds."""
    cells: dict[str, list[StudyRun]] = defaultdict(list)
    for run in runs:
        if run.mode == GRID and matches(run.levels, reference.where):
            cells[', '.join(run.levels.values())].append(run)
    return {name: sorted(members, key=_seed) for name, members in cells.items()}


def _seed(run: StudyRun) -> int:
    return run.seed

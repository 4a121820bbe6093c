"""Each cell at its best rate: the same trials for every cell, hopeless ones stopped, then the best with all seeds."""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import count
from typing import Any

import numpy as np
import optuna
from optuna.trial import FrozenTrial, TrialState, create_trial
from scipy.stats import qmc

from mmflatten.studies.folder import FAILED, FINISHED, Result
from mmflatten.studies.grid import BEST, TRIAL, Run, cells, make_run, seeds_of
from mmflatten.studies.study import Level, Study, Tune

TRIAL_SEED = 10_000  # far from the seeds of studies, which may grow


def values_of(tune: Tune) -> list[dict[str, float]]:
    """What is tried, the same for every cell: evenly spaced for one field, a Halton sequence for several."""
    if len(tune.ranges) == 1:
        points = np.linspace(0, 1, tune.trials)[:, None]
    else:
        points = qmc.Halton(len(tune.ranges), seed=0).random(tune.trials)
    forward, back = (np.log, np.exp) if tune.log else (np.asarray, np.asarray)
    low, high = forward(np.transpose(list(tune.ranges.values())))
    rows = back(low + points * (high - low))
    return [{path: float(np.clip(float(f'{value:.4g}'), *limits)) for (path, limits), value
             in zip(tune.ranges.items(), row)} for row in rows]


def trials_of(study: Study) -> list[Run]:
    """The trials of all cells, with a seed that no reported run has or will have, so that luck is not chosen."""
    if study.tune is None:
        return []
    seed = next(seed for seed in count(TRIAL_SEED) if seed not in study.seeds)
    return [make_run(study, levels, seed, TRIAL, tuned, number) for levels in cells(study)
            for number, tuned in enumerate(values_of(study.tune))]


def best_runs(study: Study, results: Mapping[str, Result]) -> list[Run]:
    """Every cell with the values of its best trial and all seeds; cells that have no finished trial are left out."""
    runs = []
    for levels in cells(study) if study.tune else ():
        names = tuple(level.name for level in levels)
        done = [result for result in results.values() if result.mode == TRIAL and result.state == FINISHED
                and tuple(result.levels.values()) == names]
        if done:
            best = max(done, key=lambda result: sign(study, result.metric) * validated(result))
            runs += _with_all_seeds(study, levels, best.tuned)
    return runs


def expected_best(study: Study) -> list[Run]:
    """What `best_runs` will find where every cell has a finished trial, but for the values, which stand for any."""
    return [run for levels in cells(study) for run in _with_all_seeds(study, levels, values_of(study.tune)[0])
            ] if study.tune else []


def _with_all_seeds(study: Study, levels: tuple[Level, ...], tuned: dict[str, float]) -> list[Run]:
    return [make_run(study, levels, seed, BEST, tuned) for seed in seeds_of(study, levels)]


def validated(result: Result) -> float:
    """The metric of the last validation, which a choice may be made by; the test's where there was none."""
    return result.validations[max(result.validations, key=int)] if result.validations else result.value


def signed(study: Study, result: Result) -> float:
    """The metric of a result, larger where it is better."""
    return sign(study, result.metric) * result.value


def sign(study: Study, metric: str) -> int:
    """1 where more is better, -1 where less is."""
    return 1 if study.metrics[metric] == 'higher' else -1


class Pruner:
    """Optuna's median pruner: ends a trial that is worse at a validation than the median of its cell's others."""

    def __init__(self, study: Study, results: Sequence[Result]) -> None:
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        self.study = study
        self.cells: dict[tuple, optuna.Study] = {}
        for result in results:
            self.add(result)

    def add(self, result: Result) -> None:
        """Take up a trial that has ended."""
        if result.mode != TRIAL or result.state == FAILED or not result.validations:
            return
        ended = TrialState.COMPLETE if result.state == FINISHED else TrialState.PRUNED
        trial = self._trial(ended, result.metric, result.validations)
        self._cell(tuple(result.levels.items())).add_trial(trial)

    def hopeless(self, run: Run, progress: Mapping[str, Any]) -> bool:
        """Whether a running trial is to end, by the validations in its progress."""
        if not progress.get('validations'):
            return False
        cell = self._cell(run.cell)
        return cell.pruner.prune(cell, self._trial(TrialState.RUNNING, progress['metric'], progress['validations']))

    def _trial(self, state: TrialState, metric: str, validations: Mapping[str, float]) -> FrozenTrial:
        values = {int(step): sign(self.study, metric) * value for step, value in validations.items()}
        value = None if state == TrialState.RUNNING else values[max(values)]
        return create_trial(state=state, value=value, intermediate_values=values)

    def _cell(self, cell: tuple) -> optuna.Study:
        if cell not in self.cells:
            self.cells[cell] = optuna.create_study(direction='maximize', pruner=optuna.pruners.MedianPruner(
                n_startup_trials=min(3, self.study.tune.trials - 1)))
        return self.cells[cell]

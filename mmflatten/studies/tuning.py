"""Search for the best settings of each cell: the same trials for every cell, then the best settings with all seeds."""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import count
from typing import Any

import numpy as np
import optuna
from optuna.trial import FrozenTrial, TrialState, create_trial
from scipy.stats import qmc

from mmflatten.studies.folder import FAILED, FINISHED, Result
from mmflatten.studies.grid import BEST, TRIAL, StudyRun, cells, make_run, seeds_of
from mmflatten.studies.study import Study, Tune

TRIAL_SEED = 10_000  # far from the seeds of studies, to which more may be added


def trial_settings(tune: Tune) -> list[dict[str, float]]:
    """Settings to try, the same for every cell: evenly spaced for one field, a Halton sequence for several."""
    if len(tune.ranges) == 1:
        points = np.linspace(0, 1, tune.trials)[:, None]
    else:
        points = qmc.Halton(len(tune.ranges), seed=0).random(tune.trials)
    forward, back = (np.log, np.exp) if tune.log else (np.asarray, np.asarray)
    low, high = forward(np.transpose(list(tune.ranges.values())))
    rows = back(low + points * (high - low))
    return [{path: float(np.clip(float(f'{value:.4g}'), *limits)) for (path, limits), value
             in zip(tune.ranges.items(), row)} for row in rows]


def trials_of(study: Study) -> list[StudyRun]:
    """Trials of all cells. Their seed is not used by any reported run, so that the choice is not made by luck."""
    if study.tune is None:
        return []
    seed = next(seed for seed in count(TRIAL_SEED) if seed not in study.seeds)
    return [make_run(study, levels, seed, TRIAL, settings, number) for levels in cells(study)
            for number, settings in enumerate(trial_settings(study.tune))]


def best_runs(study: Study, results: Mapping[str, Result] | None = None) -> list[StudyRun]:
    """Runs of every cell with the settings of its best trial and all seeds, except cells without a finished trial.

    Args:
        results: None plans the runs of all cells before the trials, with the first settings as placeholders.
    """
    runs = []
    for levels in cells(study) if study.tune else ():
        if results is None:
            settings = trial_settings(study.tune)[0]
        else:
            trials = [result for result in results.values()
                      if result.mode == TRIAL and result.state == FINISHED and result.levels == levels]
            if not trials:
                continue
            settings = max(trials, key=lambda trial: sign(study, trial.metric) * _validated(trial)).tuned
        runs += [make_run(study, levels, seed, BEST, settings) for seed in seeds_of(study, levels)]
    return runs


def _validated(result: Result) -> float:
    """Metric of the last validation, so that the choice does not see the test; the test's if there was none."""
    return result.validations[max(result.validations, key=int)] if result.validations else result.value


def sign(study: Study, metric: str) -> int:
    """1 if a higher metric is better, -1 if a lower one is."""
    return 1 if study.metrics[metric] == 'higher' else -1


def signed(study: Study, result: Result) -> float:
    """Metric of a result, negated if lower is better."""
    return sign(study, result.metric) * result.value


class Pruner:
    """Optuna's median pruner: stops a trial that is worse at a validation than the median of its cell's trials."""

    def __init__(self, study: Study, results: Sequence[Result]) -> None:
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        self.study = study
        self.cells: dict[tuple, optuna.Study] = {}
        for result in results:
            self.add(result)

    def add(self, result: Result) -> None:
        """Record a trial that has ended; other runs are ignored."""
        if result.mode == TRIAL and result.state != FAILED and result.validations:
            state = TrialState.COMPLETE if result.state == FINISHED else TrialState.PRUNED
            self._cell(result.levels).add_trial(self._trial(state, result.metric, result.validations))

    def is_hopeless(self, run: StudyRun, progress: Mapping[str, Any]) -> bool:
        """Return True if a running trial should be stopped, judged by the validations in its progress."""
        if not progress.get('validations'):
            return False
        cell = self._cell(run.levels)
        return cell.pruner.prune(cell, self._trial(TrialState.RUNNING, progress['metric'], progress['validations']))

    def _trial(self, state: TrialState, metric: str, validations: Mapping[str, float]) -> FrozenTrial:
        values = {int(step): sign(self.study, metric) * value for step, value in validations.items()}
        value = None if state == TrialState.RUNNING else values[max(values)]
        return create_trial(state=state, value=value, intermediate_values=values)

    def _cell(self, levels: Mapping[str, str]) -> optuna.Study:
        key = tuple(levels.values())
        if key not in self.cells:
            pruner = optuna.pruners.MedianPruner(n_startup_trials=min(3, self.study.tune.trials - 1))
            self.cells[key] = optuna.create_study(direction='maximize', pruner=pruner)
        return self.cells[key]

"""Driver of a study: submits the runs and records how they end. It can be killed and started again."""
import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from mmflatten_lab.studies.configs import config_of
from mmflatten_lab.studies.costs import check_runs
from mmflatten_lab.studies.executors import LOG, NO_SPACE, Executor
from mmflatten_lab.studies.folder import PROGRESS, RESULT, RUN, STOP, StudyFolder, read_file, write_json
from mmflatten_lab.studies.runs import ENDED, FAILED, FINISHED, TRIAL, StudyRun, best_runs, expand
from mmflatten_lab.studies.statistics import added_runs
from mmflatten_lab.studies.study import Study, StudyError, counted

ATTEMPTS = 3  # for a run whose process is killed
POLL = 0.2  # seconds
COSTS = ('wall_seconds', 'cpu_seconds', 'gpu_seconds')
COMPARED = {'config_hash': 'config', 'metrics': 'metrics', 'seconds': 'budget.seconds'}


class Driver:
    """Runs a study to its end. The folder must be locked.

    Args:
        say: called with one line for every run that ends and for other news.
        published: results by name of the run, taken over where the config of the run is still the same.
    """

    def __init__(self, study: Study, folder: StudyFolder, executor: Executor, say: Callable[[str], None],
                 published: Mapping[str, Mapping[str, Any]] | None = None) -> None:
        self.study, self.folder, self.executor, self.say = study, folder, executor, say
        self.published = published or {}
        self.start = time.monotonic()
        self.runs: dict[str, StudyRun] = {}
        self.attempts: Counter[str] = Counter()
        self.running: dict[str, Any] = {}  # name -> handle of the executor

    def go(self, changed: str | None = None, retry_failed: bool = False) -> list[StudyRun]:
        """Run the unfinished runs, then each cell with its tuned settings. Returns all with their results.

        Args:
            changed: `keep` leaves runs that were started with other settings, `rerun` repeats them.

        Raises:
            StudyError: a run cannot be built or was started with other settings, the disk is full or the time over.
        """
        try:
            self._run_all(expand(self.study), changed, retry_failed)
            while more := [run for run in added_runs(self.study, self.runs) if run.name not in self.runs]:
                self.say(f'{counted(len(more), "run")} with further seeds for claims that are still open')
                self._run_all(more, changed, retry_failed)
            self._run_all(best_runs(self.study, self.runs.values()), changed, retry_failed)
        finally:
            for handle in self.running.values():
                self.executor.cancel(handle)
        return list(self.runs.values())

    def _run_all(self, runs: Sequence[StudyRun], changed: str | None, retry_failed: bool) -> None:
        check_runs(self.study, runs)
        self._take_over(runs)
        self._discard_changed(runs, changed, retry_failed)
        if retry_failed:
            self._reopen_failed(runs)
        self.runs.update({run.name: self.folder.read(run) for run in runs})
        waiting = [run for run in runs if self.runs[run.name].state not in ENDED]
        while waiting or self.running:
            while waiting and len(self.running) < self.executor.slots and self._in_time(len(waiting)):
                self._submit(waiting.pop(0))
            for name, handle in list(self.running.items()):
                run, folder, status = self.runs[name], self.folder.run(name), self.executor.poll(handle)
                if status is not None:
                    del self.running[name]
                    if self._record(run, status):
                        self._tell(self.runs[name], runs)
                    else:
                        waiting.insert(0, run)
                elif is_hopeless(self.study, run, read_file(folder / PROGRESS), self.runs.values()):
                    (folder / STOP).touch()
            time.sleep(POLL)

    def _take_over(self, runs: Sequence[StudyRun]) -> None:
        """Write the published results of runs that have not been started here."""
        known = [run for run in runs if run.name in self.published and not (self.folder.run(run.name) / RUN).exists()]
        same = [run for run in known if self.published[run.name].get('config_hash') == run.config_hash]
        for run in same:
            folder = self.folder.prepare(run.name, config_of(run, self.study.budget), self._content(run))
            write_json(folder / RESULT, run.with_result(self.published[run.name]).result())
        if known:
            self.say(f'{len(same)} of {counted(len(known), "published run")} taken over'
                     + (', the others have another config and run again' if len(same) < len(known) else ''))

    def _content(self, run: StudyRun) -> dict[str, Any]:
        """Content of `run.json`, which the worker reads beside the config."""
        result = run.result()
        del result['machine']
        return dict(result=result, config_hash=run.config_hash, metrics=list(self.study.metrics),
                    seconds=self.study.budget.seconds)

    def _discard_changed(self, runs: Sequence[StudyRun], changed: str | None, retry_failed: bool) -> None:
        """Compare the study with the settings that its runs were started with, and discard runs if they are repeated.

        Only the config of failed runs is compared if they are reopened.
        """
        differing = {}
        for run in runs:
            fields = _changed_fields(read_file(self.folder.run(run.name) / RUN), self._content(run))
            known = self.folder.read(run)
            if 'config' in fields or fields and not (retry_failed and known.state == FAILED):
                differing[run.name] = fields
                if changed == 'keep' and known.metric and known.metric not in self.study.metrics:
                    raise StudyError(f'metrics: expected {known.metric}, by which {run.name} was judged, got '
                                     f'{", ".join(self.study.metrics)}. Add it, or use --changed rerun.')
        if differing and changed is None:
            name, fields = next(iter(differing.items()))
            raise StudyError(f'{self.folder.path}: expected runs that were started with this study file, got '
                             f'{counted(len(differing), "run")} with another {", ".join(fields)} ({name}, ...). Use '
                             '--changed keep to leave them or --changed rerun to repeat them.')
        for name in differing if changed == 'rerun' else ():
            self.executor.withdraw(name)
            shutil.rmtree(self.folder.run(name))

    def _reopen_failed(self, runs: Sequence[StudyRun]) -> None:
        """Make failed runs ready to run again, with the current settings unless their config was kept."""
        for run in runs:
            folder = self.folder.run(run.name)
            if read_file(folder / RESULT).get('state') == FAILED:
                if read_file(folder / RUN).get('config_hash') == run.config_hash:
                    write_json(folder / RUN, self._content(run))
                (folder / RESULT).unlink()

    def _submit(self, run: StudyRun) -> None:
        if shutil.disk_usage(self.folder.path).free < run.disk:
            raise self._no_space()
        folder = self.folder.prepare(run.name, config_of(run, self.study.budget), self._content(run))
        self.attempts[run.name] += 1
        self.running[run.name] = self.executor.submit(folder)

    def _record(self, run: StudyRun, status: int) -> bool:
        """Record a run whose process has ended. Returns False if it must be submitted again."""
        folder = self.folder.run(run.name)
        ended = (folder / RESULT).exists()
        if not ended and status == NO_SPACE:
            raise self._no_space()
        if not ended and status < 0 and self.attempts[run.name] < ATTEMPTS:
            self.say(f'{run.name} was killed; it resumes from its last checkpoint')
            return False
        if not ended:
            progress, log = read_file(folder / PROGRESS), folder / LOG
            lines = log.read_text(encoding='utf-8', errors='replace').split('\n') if log.exists() else []
            last = next((line.strip() for line in reversed(lines) if line.strip()), '')
            killed = f'killed {ATTEMPTS} times (out of memory?); ' if status < 0 else ''
            run.state, run.error = FAILED, killed + last
            vars(run).update({key: progress[key] for key in COSTS if key in progress})
            write_json(folder / RESULT, run.result())
        self.runs[run.name] = self.folder.read(run)
        return True

    def _tell(self, run: StudyRun, runs: Sequence[StudyRun]) -> None:
        ended = [self.runs[other.name] for other in runs if self.runs[other.name].state in ENDED]
        times = [other.wall_seconds for other in ended if other.wall_seconds]
        slots = min(self.executor.slots, len(runs))
        left = sum(times) / max(len(times), 1) * (len(runs) - len(ended)) / slots
        outcome = run.error if run.value is None else f'{run.metric} {run.value:.4g}'
        self.say(f'[{len(ended)}/{len(runs)}] {run.name} {run.state}{": " if outcome else ""}{outcome}; '
                 f'{run.wall_seconds:.0f} s; about {left / 60:.1f} min left')

    def _in_time(self, waiting: int) -> bool:
        """Return True if another run may start. Raises StudyError if the time is over and no run is left running."""
        limit = self.study.budget.total_hours
        if (time.monotonic() - self.start) / 3600 < limit:
            return True
        if self.running:
            return False
        raise StudyError(f'budget.total_hours: expected time for {counted(waiting, "more run")}, got {limit:g}. Repeat '
                         'the command to run them.')

    def _no_space(self) -> StudyError:
        free = shutil.disk_usage(self.folder.path).free / 2**20
        return StudyError(f'{self.folder.path}: expected free disk space, got {free:.1f} MiB free. Make room and '
                          'repeat the command; finished runs are kept.')


def is_hopeless(study: Study, run: StudyRun, progress: Mapping[str, Any], runs: Iterable[StudyRun]) -> bool:
    """Return True if a running trial should stop, by the median stopping rule (Golovin et al., Google Vizier, 2017).

    Its best validation so far is worse than the median, at the same step, of the finished trials of its cell, of which
    there must be three, or all others if a cell has fewer.
    """
    finished = [other.validations for other in runs if other.mode == TRIAL and other.state == FINISHED
                and other.levels == run.levels and other.validations]
    validations = progress.get('validations')
    if run.mode != TRIAL or not validations or len(finished) < min(3, study.tune.trials - 1):
        return False
    sign, step = study.sign(progress['metric']), max(validations, key=int)
    best = np.nanmax([sign * value for value in validations.values()])
    median = np.nanmedian([sign * trial.get(step, np.nan) for trial in finished])
    return bool(best < median or np.isnan(best))


def _changed_fields(started: Mapping[str, Any], content: Mapping[str, Any]) -> list[str]:
    """Fields of the study file that changed since a run was started. Fields missing from an older file are ignored."""
    return [name for key, name in COMPARED.items() if key in started and started[key] != content[key]]

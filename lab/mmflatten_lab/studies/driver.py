"""Driver of a study, which submits the runs and records how they end. It can be killed and started
again.
"""

import shutil
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from mmflatten.untrusted.files import read_bytes
from mmflatten_lab.studies.claims import added_runs
from mmflatten_lab.studies.configs import config_of
from mmflatten_lab.studies.costs import check_runs
from mmflatten_lab.studies.executors import Executor
from mmflatten_lab.studies.folder import PROGRESS, RESULT, RUN, StudyFolder, read_file, write_json
from mmflatten_lab.studies.gate import check_reference, reference_runs
from mmflatten_lab.studies.runs import ENDED, FAILED, FINISHED, StudyRun, expand
from mmflatten_lab.studies.study import Study
from mmflatten_lab.studies.study_fields import StudyError, pluralize
from mmflatten_lab.studies.worker import LOG, NO_SPACE

ATTEMPTS = 3  # for a run whose process is killed
POLL = 0.2  # seconds
COSTS = ('wall_seconds', 'cpu_seconds', 'gpu_seconds')
COMPARED = ('config_hash', 'metrics')  # fields of `run.json`


class Driver:
    """Runs a study to its end. The folder must be locked.

    Args:
        log: called with one line for every run that ends and for other news.
        published: results by name of the run, reused if the config of the run is still the same.
    """

    def __init__(
        self,
        study: Study,
        folder: StudyFolder,
        executor: Executor,
        log: Callable[[str], None],
        published: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> None:
        self.study = study
        self.folder = folder
        self.executor = executor
        self.log = log
        self.published = {}
        for name, result in (published or {}).items():
            if result.get('state') == FINISHED:
                self.published[name] = result
        self.start = time.monotonic()
        self.runs: dict[str, StudyRun] = {}
        self.attempts: Counter[str] = Counter()
        self.running: dict[str, Any] = {}  # name -> handle of the executor

    def run(self, changed: str | None = None, retry_failed: bool = False) -> list[StudyRun]:
        """Run the unfinished runs, then those of further seeds. Returns all with their results.

        Args:
            changed: `keep` leaves runs that were started with other settings, `rerun` repeats them.

        Raises:
            StudyError: a run cannot be built or was started with other settings, the reference does
                not repeat, or the disk is full.
        """
        try:
            planned = expand(self.study)
            first = reference_runs(self.study, planned)
            if first:
                self.log('The reference runs first: the grid follows if it repeats.')
                self._run_all(first, changed, retry_failed)
                check_reference(self.study, planned, self.runs)
            self._run_all(planned, changed, retry_failed)
            while more := self._further_runs():
                self.log(
                    f'{pluralize(len(more), "run")} with further seeds for claims that are still'
                    ' open'
                )
                self._run_all(more, changed, retry_failed)
        finally:
            for handle in self.running.values():
                self.executor.cancel(handle)
        return list(self.runs.values())

    def _further_runs(self) -> list[StudyRun]:
        further = added_runs(self.study, self.runs)
        return [run for run in further if run.name not in self.runs]

    def _run_all(self, runs: Sequence[StudyRun], changed: str | None, retry_failed: bool) -> None:
        self.log(
            f'{pluralize(len(runs), "run")}, {min(len(runs), self.executor.slots)} at a time; a'
            ' line for each that ends'
        )
        check_runs(self.study, runs)
        self._reuse_published(runs)
        self._discard_changed(runs, changed, retry_failed)
        if retry_failed:
            self._reopen_failed(runs)
        for run in runs:
            self.runs[run.name] = self.folder.read(run)
        waiting = [run for run in runs if self.runs[run.name].state not in ENDED]
        while waiting or self.running:
            while waiting and len(self.running) < self.executor.slots:
                self._submit(waiting.pop(0))
            for name, handle in list(self.running.items()):
                status = self.executor.poll(handle)
                if status is None:
                    continue
                del self.running[name]
                run = self.runs[name]
                if self._record(run, status):
                    self._log_end(self.runs[name], runs)
                else:
                    waiting.insert(0, run)
            time.sleep(POLL)

    def _reuse_published(self, runs: Sequence[StudyRun]) -> None:
        """Copy the published results of runs that were not started here."""
        known = 0
        reused = 0
        for run in runs:
            result = self.published.get(run.name)
            if result is None or (self.folder.run(run.name) / RUN).exists():
                continue
            known += 1
            if result.get('config_hash') == run.config_hash:
                folder = self._prepare(run)
                write_json(folder / RESULT, run.with_result(result).result())
                reused += 1
        if known:
            others = ', the others have another config and run again' if reused < known else ''
            self.log(f'{reused} of {pluralize(known, "published run")} reused{others}')

    def _prepare(self, run: StudyRun) -> Path:
        """Write the files of a run that its worker reads. Returns their folder."""
        config = config_of(run, self.study.budget)
        return self.folder.prepare(run.name, config, self._content(run))

    def _content(self, run: StudyRun) -> dict[str, Any]:
        """Content of `run.json`, which the worker reads beside the config."""
        result = run.result()
        del result['machine']
        return dict(result=result, config_hash=run.config_hash, metrics=list(self.study.metrics))

    def _discard_changed(
        self, runs: Sequence[StudyRun], changed: str | None, retry_failed: bool
    ) -> None:
        """Find runs that were started with other settings, and discard them if they are to be
        repeated.

        For failed runs that are retried, only the config is compared.
        """
        differing = {}
        for run in runs:
            started = read_file(self.folder.run(run.name) / RUN)
            fields = _changed_fields(started, self._content(run))
            known = self.folder.read(run)
            is_retried = retry_failed and known.state == FAILED
            if not fields or (is_retried and 'config' not in fields):
                continue
            differing[run.name] = fields
            if changed == 'keep' and known.metric and known.metric not in self.study.metrics:
                raise StudyError(
                    f'metrics: expected {known.metric}, by which {run.name} was judged, got '
                    f'{", ".join(self.study.metrics)}. Add it, or use --changed rerun.'
                )
        if differing and changed is None:
            name, fields = next(iter(differing.items()))
            raise StudyError(
                f'{self.folder.path}: expected runs that were started with this study file, got'
                f' {pluralize(len(differing), "run")} with another {", ".join(fields)} ({name},'
                ' ...). Use --changed keep to leave them or --changed rerun to repeat them.'
            )
        if changed == 'rerun':
            for name in differing:
                self.executor.withdraw(name)
                shutil.rmtree(self.folder.run(name))

    def _reopen_failed(self, runs: Sequence[StudyRun]) -> None:
        """Make failed runs ready to run again, with the current metrics unless their config was
        kept.
        """
        for run in runs:
            folder = self.folder.run(run.name)
            if read_file(folder / RESULT).get('state') != FAILED:
                continue
            if read_file(folder / RUN).get('config_hash') == run.config_hash:
                write_json(folder / RUN, self._content(run))
            (folder / RESULT).unlink()

    def _submit(self, run: StudyRun) -> None:
        if shutil.disk_usage(self.folder.path).free < run.disk:
            raise self._no_space()
        folder = self._prepare(run)
        self.attempts[run.name] += 1
        self.running[run.name] = self.executor.submit(folder)

    def _record(self, run: StudyRun, status: int) -> bool:
        """Record a run whose process has ended. Returns False if it must be submitted again."""
        folder = self.folder.run(run.name)
        if not (folder / RESULT).exists():
            if status == NO_SPACE:
                raise self._no_space()
            if status < 0 and self.attempts[run.name] < ATTEMPTS:
                self.log(f'{run.name} was killed; it resumes from its last checkpoint')
                return False
            self._record_failure(run, status)
        self.runs[run.name] = self.folder.read(run)
        return True

    def _record_failure(self, run: StudyRun, status: int) -> None:
        """Write the result of a run that ended without one."""
        folder = self.folder.run(run.name)
        run.state = FAILED
        run.error = _last_line(folder / LOG)
        if status < 0:
            run.error = f'killed {ATTEMPTS} times (out of memory?); {run.error}'
        progress = read_file(folder / PROGRESS)
        vars(run).update({key: progress[key] for key in COSTS if key in progress})
        write_json(folder / RESULT, run.result())

    def _log_end(self, run: StudyRun, runs: Sequence[StudyRun]) -> None:
        ended = [self.runs[other.name] for other in runs if self.runs[other.name].state in ENDED]
        times = [other.wall_seconds for other in ended if other.wall_seconds]
        slots = min(self.executor.slots, len(runs))
        left = sum(times) / max(len(times), 1) * (len(runs) - len(ended)) / slots
        outcome = run.error if run.value is None else f'{run.metric} {run.value:.4g}'
        if outcome:
            outcome = f': {outcome}'
        self.log(
            f'[{len(ended)}/{len(runs)}] {run.name} {run.state}{outcome}; '
            f'{run.wall_seconds:.0f} s; about {left / 60:.1f} min left'
        )

    def _no_space(self) -> StudyError:
        free = shutil.disk_usage(self.folder.path).free / 2**20
        return StudyError(
            f'{self.folder.path}: expected free disk space, got {free:.1f} MiB free. Make room and '
            'repeat the command; finished runs are kept.'
        )


def _changed_fields(started: Mapping[str, Any], content: Mapping[str, Any]) -> list[str]:
    """Fields that changed since a run was started. Fields missing from an older `run.json` are
    ignored.
    """
    changed = []
    for key in COMPARED:
        if key in started and started[key] != content[key]:
            changed.append(key.partition('_')[0])
    return changed


def _last_line(log: Path) -> str:
    """Last line of a log that is not empty; '' if there is none."""
    if not log.exists():
        return ''
    for line in reversed(read_bytes(log).decode(errors='replace').split('\n')):
        if line.strip():
            return line.strip()
    return ''

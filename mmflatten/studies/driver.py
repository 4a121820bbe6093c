"""Driver of a study: submits the runs and records how they end. It can be killed and started again."""
from __future__ import annotations

import shutil
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from mmflatten.studies.configs import config_of
from mmflatten.studies.costs import Cost, check_runs
from mmflatten.studies.executors import LOG, NO_SPACE, Executor
from mmflatten.studies.folder import FAILED, FINISHED, PRUNED, STOP, Result, StudyFolder, write_result
from mmflatten.studies.grid import TRIAL, StudyRun
from mmflatten.studies.study import Study, StudyError, counted
from mmflatten.studies.tuning import Pruner, best_runs

ATTEMPTS = 3  # for a run whose process is killed
POLL = 0.2  # seconds
COSTS = ('wall_seconds', 'cpu_seconds', 'gpu_seconds', 'peak_memory')
ENDED = (FINISHED, PRUNED, FAILED)


class Driver:
    """Runs a study to its end. The folder must be locked.

    Args:
        say: called with one line for every run that ends and for other news.
    """

    def __init__(self, study: Study, folder: StudyFolder, executor: Executor, say: Callable[[str], None]) -> None:
        self.study, self.folder, self.executor, self.say = study, folder, executor, say
        self.start = time.monotonic()
        self.results: dict[str, Result] = {}
        self.attempts: Counter[str] = Counter()
        self.running: dict[str, tuple[StudyRun, Any]] = {}

    def go(self, runs: Sequence[StudyRun], costs: dict[str, Cost], changed: str | None = None,
           retry_failed: bool = False) -> dict[str, Result]:
        """Run the unfinished runs, then each cell with its tuned settings. Returns all results.

        Raises:
            StudyError: the disk is full, the time is over, or a run was started with other settings.
        """
        try:
            self._run_all(runs, costs, changed, retry_failed)
            best = best_runs(self.study, self.results)
            if best:
                self._run_all(best, check_runs(self.study, best), changed, retry_failed)
        finally:
            for _, handle in self.running.values():
                self.executor.cancel(handle)
        return self.results

    def _run_all(self, runs: Sequence[StudyRun], costs: dict[str, Cost], changed: str | None,
                 retry_failed: bool) -> None:
        contents = {run.name: self._content(run, costs[run.name]) for run in runs}
        for name in self.folder.to_discard(contents, changed, retry_failed):
            self.executor.withdraw(name)
            shutil.rmtree(self.folder.run(name))
        for run in runs:
            result = self.folder.result(run.name)
            if result and result.state == FAILED and retry_failed:
                self.folder.reopen(run.name, contents[run.name])
                result = None
            self.results[run.name] = result or self._blank(run, costs[run.name])
        pruner = Pruner(self.study, list(self.results.values()))
        waiting = [run for run in runs if self.results[run.name].state not in ENDED]
        while waiting or self.running:
            while waiting and len(self.running) < self.executor.slots and self._in_time(len(waiting)):
                run = waiting.pop(0)
                self._submit(run, costs[run.name], contents[run.name])
            for name, (run, handle) in list(self.running.items()):
                status = self.executor.poll(handle)
                if status is None:
                    if run.mode == TRIAL and pruner.is_hopeless(run, self.folder.progress(name)):
                        (self.folder.run(name) / STOP).touch()
                    continue
                del self.running[name]
                if self._record(run, status):
                    pruner.add(self.results[name])
                    self._tell(self.results[name], runs)
                else:
                    waiting.insert(0, run)
            time.sleep(POLL)

    def _blank(self, run: StudyRun, cost: Cost) -> Result:
        return Result(run.name, run.mode, run.levels, run.seed, run.tuned, params=cost.params, flops=cost.flops,
                      config_hash=cost.config_hash)

    def _content(self, run: StudyRun, cost: Cost) -> dict[str, Any]:
        """Content of `run.json`, which the worker reads beside the config."""
        result, throughput = asdict(self._blank(run, cost)), self.study.throughput
        del result['machine']
        return dict(result=result, config_hash=cost.config_hash, metrics=list(self.study.metrics),
                    seconds=self.study.budget.seconds,
                    throughput={'shape': list(cost.shape), **throughput.model_dump()})

    def _submit(self, run: StudyRun, cost: Cost, content: dict[str, Any]) -> None:
        if shutil.disk_usage(self.folder.path).free < cost.disk:
            raise self._no_space()
        folder = self.folder.prepare(run.name, config_of(run, self.study.budget), content)
        self.attempts[run.name] += 1
        self.running[run.name] = run, self.executor.submit(folder)

    def _record(self, run: StudyRun, status: int) -> bool:
        """Record a run whose process has ended. Returns False if it must be submitted again."""
        result = self.folder.result(run.name)
        if result is None and status == NO_SPACE:
            raise self._no_space()
        if result is None and status < 0 and self.attempts[run.name] < ATTEMPTS:
            self.say(f'{run.name} was killed; it resumes from its last checkpoint')
            return False
        if result is None:
            folder, progress, result = self.folder.run(run.name), self.folder.progress(run.name), self.results[run.name]
            killed = f'killed {ATTEMPTS} times (out of memory?); ' if status < 0 else ''
            result.state, result.error = FAILED, killed + _last_line(folder / LOG)
            vars(result).update({key: progress[key] for key in COSTS if key in progress})
            write_result(folder, result)
        self.results[run.name] = result
        return True

    def _tell(self, result: Result, runs: Sequence[StudyRun]) -> None:
        ended = [self.results[run.name] for run in runs if self.results[run.name].state in ENDED]
        times = [item.wall_seconds for item in ended if item.wall_seconds]
        slots = min(self.executor.slots, len(runs))
        left = sum(times) / max(len(times), 1) * (len(runs) - len(ended)) / slots
        outcome = f'{result.metric} {result.value:.4g}' if result.value is not None else result.error
        self.say(f'[{len(ended)}/{len(runs)}] {result.name} {result.state}{": " if outcome else ""}{outcome}; '
                 f'{result.wall_seconds:.0f} s; about {left / 60:.1f} min left')

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


def _last_line(log: Path) -> str:
    """Last line of a log that is not empty."""
    lines = log.read_text(encoding='utf-8', errors='replace').split('\n') if log.exists() else []
    return next((line.strip() for line in reversed(lines) if line.strip()), '')

"""The driver of a study submits runs and records what becomes of them; it can be killed and started again."""
from __future__ import annotations

import shutil
import sqlite3
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

from mmflatten.studies import folder as states
from mmflatten.studies.configs import config_of
from mmflatten.studies.costs import Cost, check_runs
from mmflatten.studies.executors import Executor
from mmflatten.studies.folder import Result, StudyFolder, last_line, write_result
from mmflatten.studies.grid import TRIAL, Run
from mmflatten.studies.study import Study, StudyError, counted
from mmflatten.studies.table import Table
from mmflatten.studies.tuning import Pruner, best_runs
from mmflatten.studies.worker import NO_SPACE

ATTEMPTS = 3  # of a run whose process is killed
POLL = 0.2  # seconds
COSTS = ('wall_seconds', 'cpu_seconds', 'gpu_seconds', 'peak_memory')
ENDED = (states.FINISHED, states.PRUNED, states.FAILED)


class Driver:
    """Brings the runs of a study to their end. The folder must be locked.

    Args:
        say: told a line for every run that ends, and whatever else a user wants to know.
    """

    def __init__(self, study: Study, folder: StudyFolder, executor: Executor, say: Callable[[str], None]) -> None:
        self.study, self.folder, self.executor, self.say = study, folder, executor, say
        self.table = Table(folder)
        self.begin = time.monotonic()
        self.results: dict[str, Result] = {}
        self.attempts: Counter[str] = Counter()
        self.running: dict[str, tuple[Run, Any]] = {}

    def go(self, runs: Sequence[Run], costs: dict[str, Cost], changed: str | None = None,
           retry_failed: bool = False) -> dict[str, Result]:
        """Run what has not ended yet, then every cell at its best; returns all results.

        Raises:
            StudyError: the disk is full, the time is over, or a run began with something else than the study says now.
        """
        try:
            self._take_up(runs, costs, changed, retry_failed)
            self._work(runs, costs)
            best = best_runs(self.study, self.results)
            if best:
                costs = check_runs(self.study, best)
                self._take_up(best, costs, changed, retry_failed)
                self._work(best, costs)
        except sqlite3.OperationalError as error:
            if 'full' not in str(error):
                raise
            raise self._no_space() from error
        finally:
            self.executor.close()
            self.table.close()
        return self.results

    def _take_up(self, runs: Sequence[Run], costs: dict[str, Cost], changed: str | None, retry_failed: bool) -> None:
        """Read what earlier drivers left, and put it into the table."""
        contents = {run.name: self._content(run, costs[run.name]) for run in runs}
        for name in self.folder.to_discard(contents, changed, retry_failed):
            self.executor.withdraw(name)
            shutil.rmtree(self.folder.run(name))
        for run in runs:
            result = self.folder.result(run.name) or self._blank(run, costs[run.name])
            if result.state == states.FAILED and retry_failed:
                self.folder.reopen(run.name, contents[run.name])
                result = self._blank(run, costs[run.name])
            self.results[run.name] = result
        best = filter(None, (self.folder.result(run.name) for run in best_runs(self.study, self.results)))
        self.table.rebuild({**{result.name: result for result in best}, **self.results}.values())

    def _blank(self, run: Run, cost: Cost) -> Result:
        return Result(run.name, run.mode, run.levels, run.seed, run.tuned, params=cost.params, flops=cost.flops,
                      config_hash=cost.config_hash)

    def _content(self, run: Run, cost: Cost) -> dict[str, Any]:
        """What `run.json` holds: all that the process of a run reads beside its config."""
        blank, throughput = asdict(self._blank(run, cost)), self.study.throughput
        del blank['machine']
        return dict(result=blank, config_hash=cost.config_hash, metrics=list(self.study.metrics),
                    seconds=self.study.budget.seconds, throughput=dict(
                        shape=list(cost.shape), scales=list(throughput.scales), batch=throughput.batch,
                        seconds=throughput.seconds))

    def _work(self, runs: Sequence[Run], costs: dict[str, Cost]) -> None:
        pruner = Pruner(self.study, list(self.results.values()))
        waiting = [run for run in runs if self.results[run.name].state not in ENDED]
        while waiting or self.running:
            while waiting and len(self.running) < self.executor.slots and self._in_time(len(waiting)):
                self._submit(waiting.pop(0), costs)
            for name, (run, handle) in list(self.running.items()):
                status = self.executor.poll(handle)
                if status is None:
                    if run.mode == TRIAL and pruner.hopeless(run, self.folder.progress(name)):
                        (self.folder.run(name) / states.STOP).touch()
                    continue
                del self.running[name]
                if self._ended(run, status):
                    pruner.add(self.results[name])
                    self._tell(self.results[name], runs)
                else:
                    waiting.insert(0, run)
            time.sleep(POLL)

    def _submit(self, run: Run, costs: dict[str, Cost]) -> None:
        result, cost = self.results[run.name], costs[run.name]
        if shutil.disk_usage(self.folder.path).free < cost.disk:
            raise self._no_space()
        folder = self.folder.prepare(run.name, config_of(run, self.study.budget), self._content(run, cost))
        self.attempts[run.name] += 1
        self.running[run.name] = run, self.executor.submit(folder)
        result.state = states.RUNNING
        self.table.put(result)

    def _ended(self, run: Run, status: int) -> bool:
        """Record a run whose process has ended; False where it is to be submitted again."""
        folder, result = self.folder.run(run.name), self.results[run.name]
        done = self.folder.result(run.name)
        if done is None and status == NO_SPACE:
            raise self._no_space()
        if done is None and status < 0 and self.attempts[run.name] < ATTEMPTS:
            self.say(f'{run.name} was killed; it goes on from its last checkpoint')
            result.state = states.WAITING
            self.table.put(result)
            return False
        if done is None:
            killed = f'killed {ATTEMPTS} times (out of memory?); ' if status < 0 else ''
            done = result
            done.state, done.error = states.FAILED, killed + last_line(folder / states.LOG)
            known = self.folder.progress(run.name)
            vars(done).update({key: known[key] for key in COSTS if key in known})
            write_result(folder, done)
        self.results[run.name] = done
        self.table.put(done)
        return True

    def _tell(self, result: Result, runs: Sequence[Run]) -> None:
        ended = [self.results[run.name] for run in runs if self.results[run.name].state in ENDED]
        times = [item.wall_seconds for item in ended if item.wall_seconds]
        slots = min(self.executor.slots, len(runs))
        left = sum(times) / max(len(times), 1) * (len(runs) - len(ended)) / slots
        found = f'{result.metric} {result.value:.4g}' if result.value is not None else result.error
        said = f'{result.state}: {found}' if found else result.state
        self.say(f'[{len(ended)}/{len(runs)}] {result.name} {said}; {result.wall_seconds:.0f} s; '
                 f'about {left / 60:.1f} min left')

    def _in_time(self, waiting: int) -> bool:
        """Whether another run may begin; the time is over for good when none is running either."""
        limit = self.study.budget.total_hours
        if (time.monotonic() - self.begin) / 3600 < limit:
            return True
        if self.running:
            return False
        raise StudyError(f'budget.total_hours ({limit:g}) are over with {counted(waiting, "run")} to go; the same '
                         'command goes on with what is left')

    def _no_space(self) -> StudyError:
        free = shutil.disk_usage(self.folder.path).free / 2**20
        return StudyError(f'the disk of {self.folder.path} is full ({free:.1f} MiB are free); make room: the same '
                          'command goes on with the runs that have not finished')

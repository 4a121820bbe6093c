"""Progress of a run while it trains, and early stopping."""
from __future__ import annotations

import math
import os
import time
from pathlib import Path
from typing import Any

import torch
from mmengine.hooks import Hook
from mmengine.runner import EpochBasedTrainLoop, Runner

from mmflatten.studies.folder import PROGRESS, STOP, read_json, write_json

INTERVAL = 1.  # seconds between two reports
STOPPED_CHECKPOINT = 'stopped.pth'
TRAINED = 'training_seconds'


class Pruned(Exception):
    """The driver stopped a trial because others are better."""


class TimeIsUp(Exception):
    """The training has used `budget.seconds`. A checkpoint has been saved."""


class ProgressHook(Hook):
    """Write `progress.json` about once a second, add up the costs of all attempts, and stop the training early.

    Args:
        folder: of the run; a file `stop` in it stops the training.
        metrics: names of metrics, of which the first that a validation has is reported.
        seconds: training time, measured up to the last checkpoint; None for no limit.
    """

    priority = 'VERY_LOW'  # after the checkpoint

    def __init__(self, folder: Path, metrics: list[str], seconds: float | None) -> None:
        self.folder, self.metrics, self.seconds = folder, metrics, seconds
        self.state: dict[str, Any] = {'validations': {}, **read_json(folder / PROGRESS)}
        self.before, self.created = dict(self.state), time.monotonic()
        self.reported, self.start = 0., math.inf

    def before_train(self, runner: Runner) -> None:
        self.start = time.monotonic() - runner.message_hub.runtime_info.get(TRAINED, 0.)  # from the checkpoint
        self._count(runner)
        self.report(runner)
        if self._is_validation_missing(runner):
            runner.val_loop.run()

    def after_train_iter(self, runner: Runner, *args: Any, **kwargs: Any) -> None:
        self._count(runner)
        if time.monotonic() - self.reported >= INTERVAL or self.is_time_up():
            self.report(runner)
        if self.is_time_up():
            runner.save_checkpoint(runner.work_dir, STOPPED_CHECKPOINT, save_optimizer=False)
            raise TimeIsUp

    def _count(self, runner: Runner) -> None:
        self.state[TRAINED] = time.monotonic() - self.start
        runner.message_hub.update_info(TRAINED, self.state[TRAINED])  # saved in checkpoints

    def is_time_up(self) -> bool:
        """Return True if the training, in all its processes, has used its seconds."""
        return self.seconds is not None and self.state.get(TRAINED, 0.) >= self.seconds

    def after_val_epoch(self, runner: Runner, metrics: dict[str, float] | None = None) -> None:
        name = next((name for name in self.metrics if name in (metrics or {})), None)
        if name is not None:
            self.state['metric'], self.state['validations'][str(_step(runner))] = name, float(metrics[name])
        self.report(runner)

    def _is_validation_missing(self, runner: Runner) -> bool:
        """Return True if the run was killed between a checkpoint and the validation after it."""
        if runner.val_loop is None:
            return False
        step, loop = _step(runner), runner.train_loop
        last = runner.max_epochs if isinstance(loop, EpochBasedTrainLoop) else runner.max_iters
        due = step >= max(1, loop.val_begin) and (step % loop.val_interval == 0 or step == last)
        return due and str(step) not in self.state['validations']

    def report(self, runner: Runner) -> None:
        """Write the progress. Raises Pruned if the driver wants the run to stop."""
        self.reported = time.monotonic()
        self.state.update(step=runner.iter, length=runner.max_iters, **self.costs())
        write_json(self.folder / PROGRESS, self.state)
        if (self.folder / STOP).exists():
            raise Pruned

    def costs(self) -> dict[str, float]:
        """Time and memory of all attempts. `gpu_seconds` is the time for which a GPU was held."""
        wall = self.before.get('wall_seconds', 0.) + time.monotonic() - self.created
        if torch.cuda.is_available():
            gpu, peak = wall, torch.cuda.max_memory_allocated()
        else:  # `getrusage` would include the peak of the parent process
            status = dict(line.split(':', 1) for line in Path('/proc/self/status').read_text().splitlines())
            gpu, peak = 0., int(status['VmHWM'].split()[0]) * 1024
        return dict(wall_seconds=wall, cpu_seconds=self.before.get('cpu_seconds', 0.) + sum(os.times()[:4]),
                    gpu_seconds=gpu, peak_memory=max(peak, self.before.get('peak_memory', 0)))


def _step(runner: Runner) -> int:
    """Finished epochs or iterations, depending on the training loop."""
    return runner.epoch if isinstance(runner.train_loop, EpochBasedTrainLoop) else runner.iter

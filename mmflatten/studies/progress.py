"""What a run says of itself while it trains, and how it is stopped early."""
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

EVERY = 1.  # seconds between two reports
STOPPED_CHECKPOINT = 'stopped.pth'
TRAINED = 'training_seconds'


class Stopped(Exception):
    """The training ends before its last step."""


class Pruned(Stopped):
    """The driver wants the run to end: others are better."""


class TimeIsUp(Stopped):
    """The seconds of the budget are over; a checkpoint has been saved."""


class ProgressHook(Hook):
    """Writes `progress.json` about once a second, adds up the costs of all attempts, and ends the training early.

    Args:
        folder: of the run; a file `stop` in it ends the training.
        metrics: names of metrics, of which the first that a validation has is reported.
        seconds: of the training that a checkpoint has behind it; None for no limit.
    """

    priority = 'VERY_LOW'  # behind the checkpoint

    def __init__(self, folder: Path, metrics: list[str], seconds: float | None) -> None:
        self.folder, self.metrics, self.seconds = folder, metrics, seconds
        self.state: dict[str, Any] = {'validations': {}, **read_json(folder / PROGRESS)}
        self.meter = Meter(self.state)
        self.said, self.begin = 0., math.inf

    def before_train(self, runner: Runner) -> None:
        self.begin = time.monotonic() - runner.message_hub.runtime_info.get(TRAINED, 0.)  # a resumed checkpoint's
        self._count(runner)
        self.say(runner)
        if self._lacks_validation(runner):
            runner.val_loop.run()

    def after_train_iter(self, runner: Runner, *args: Any, **kwargs: Any) -> None:
        self._count(runner)
        if time.monotonic() - self.said >= EVERY:
            self.say(runner)
        if self.time_is_up():
            self.say(runner)
            runner.save_checkpoint(runner.work_dir, STOPPED_CHECKPOINT, save_optimizer=False)
            raise TimeIsUp

    def _count(self, runner: Runner) -> None:
        self.state[TRAINED] = time.monotonic() - self.begin
        runner.message_hub.update_info(TRAINED, self.state[TRAINED])  # which checkpoints hold

    def time_is_up(self) -> bool:
        """Whether the training has had its seconds, in this process or before."""
        return self.seconds is not None and self.state.get(TRAINED, 0.) >= self.seconds

    def after_val_epoch(self, runner: Runner, metrics: dict[str, float] | None = None) -> None:
        name = next((name for name in self.metrics if name in (metrics or {})), None)
        if name is not None:
            self.state['metric'], self.state['validations'][str(_step(runner))] = name, float(metrics[name])
        self.say(runner)

    def _lacks_validation(self, runner: Runner) -> bool:
        """Whether the run ended between the checkpoint that is resumed and the validation after it."""
        if runner.val_loop is None:
            return False
        step, loop = _step(runner), runner.train_loop
        last = runner.max_epochs if isinstance(loop, EpochBasedTrainLoop) else runner.max_iters
        due = step >= max(1, loop.val_begin) and (step % loop.val_interval == 0 or step == last)
        return due and str(step) not in self.state['validations']

    def say(self, runner: Runner) -> None:
        """Write how far the run is; end it where the driver wants that."""
        self.said = time.monotonic()
        self.state.update(step=runner.iter, length=runner.max_iters, **self.meter.costs())
        write_json(self.folder / PROGRESS, self.state)
        if (self.folder / STOP).exists():
            raise Pruned


def _step(runner: Runner) -> int:
    """Epochs or iterations that are behind the training, whichever its loop counts."""
    return runner.epoch if isinstance(runner.train_loop, EpochBasedTrainLoop) else runner.iter


class Meter:
    """Seconds of this process and its children and the memory of this one, on top of what earlier attempts took."""

    def __init__(self, before: dict[str, Any]) -> None:
        self.before, self.begin = dict(before), time.monotonic()

    def wall(self) -> float:
        return self.before.get('wall_seconds', 0.) + time.monotonic() - self.begin

    def costs(self) -> dict[str, float]:
        """`gpu_seconds` are those that a GPU was held."""
        on_gpu = torch.cuda.is_available()
        peak = torch.cuda.max_memory_allocated() if on_gpu else _peak_resident()
        return dict(wall_seconds=self.wall(), cpu_seconds=self.before.get('cpu_seconds', 0.) + sum(os.times()[:4]),
                    gpu_seconds=self.wall() if on_gpu else 0., peak_memory=max(peak, self.before.get('peak_memory', 0)))


def _peak_resident() -> int:
    """The most bytes this process has held; `getrusage` counts those of the process that started it too."""
    status = dict(line.split(':', 1) for line in Path('/proc/self/status').read_text().splitlines())
    return int(status['VmHWM'].split()[0]) * 1024

"""Execution of one run: training with reports on its progress, and test."""
import math
import os
import subprocess
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from mmengine.hooks import Hook
from mmengine.runner import EpochBasedTrainLoop, Runner

from mmflatten.checkpoints.run_files import newest_checkpoint
from mmflatten.engine.setup import NEWEST, build_runner, load_config, set_resume
from mmflatten.engine.test import test
from mmflatten.json_files import read_json
from mmflatten.measure.speed.machine import describe_machine
from mmflatten.requirements import LIBRARIES, inspect
from mmflatten_lab.studies.folder import CONFIG, PROGRESS, RESULT, RUN, STOP, TRAIN, Started, read_file, write_json
from mmflatten_lab.studies.runs import FINISHED, PRUNED, TRIAL, StudyRun

INTERVAL = 1.  # seconds between two reports
STOPPED_CHECKPOINT = 'stopped.pth'
TRAINED = 'training_seconds'
LABELS = 'labels.npy'


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
        self.state: dict[str, Any] = {'validations': {}, **read_file(folder / PROGRESS)}
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
        """Time of all attempts. `gpu_seconds` is the time for which a GPU was held."""
        wall = self.before.get('wall_seconds', 0.) + time.monotonic() - self.created
        return dict(wall_seconds=wall, cpu_seconds=self.before.get('cpu_seconds', 0.) + sum(os.times()[:4]),
                    gpu_seconds=wall if torch.cuda.is_available() else 0.)


class LabelsHook(Hook):
    """Write the predicted class of every test image to `labels.npy` in the order of the data set, for classifiers."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.labels = folder, []

    def after_test_iter(self, runner: Runner, batch_idx: int, data_batch: Any = None, outputs: Any = None) -> None:
        self.labels += [int(sample.pred_label) for sample in outputs or () if 'pred_label' in sample]

    def after_test(self, runner: Runner) -> None:
        if self.labels:
            np.save(self.folder / LABELS, np.array(self.labels, np.uint16))


def _step(runner: Runner) -> int:
    """Finished epochs or iterations, depending on the training loop."""
    return runner.epoch if isinstance(runner.train_loop, EpochBasedTrainLoop) else runner.iter


def execute_run(folder: Path) -> None:
    """Train and test a run, and write its result."""
    content, config = read_json(folder / RUN, Started, ('result', 'metrics', 'seconds')), folder / CONFIG
    hook = ProgressHook(folder, content['metrics'], content['seconds'])
    versions = {name: inspect(library).version for name, library in LIBRARIES.items()}
    device = 'cuda' if torch.cuda.is_available() else 'cpu'
    machine = {**{name: version for name, version in versions.items() if version}, **describe_machine(device)}
    run = StudyRun('').with_result(content['result'])
    run.state, run.machine, run.git_commit = FINISHED, machine, git_commit()
    try:
        checkpoint = train_run(folder, config, hook)
        metrics = test(load_config(str(config), work_dir=str(folder / 'test')), checkpoint, hooks=[LabelsHook(folder)])
        run.metrics = {name: float(value) for name, value in metrics.items()}
        _judge(run, hook.state, content['metrics'])
    except Pruned:
        run.state, run.metric = PRUNED, hook.state['metric']
    run.validations = hook.state['validations']
    vars(run).update(hook.costs())
    write_json(folder / RESULT, run.result())


def _judge(run: StudyRun, progress: dict[str, Any], names: list[str]) -> None:
    """Set the metric of a run to the first of `names` that its test has."""
    run.metric = next((name for name in names if name in run.metrics), '')
    if not run.metric:
        raise ValueError(f'metrics: expected one of {", ".join(run.metrics)}, got {", ".join(names)}. Add a metric of '
                         'the test.')
    run.value = run.metrics[run.metric]
    validated = progress.get('metric', run.metric)
    if run.mode == TRIAL and validated != run.metric:
        raise ValueError(f'metrics: expected one metric in validation and test, got {validated} and {run.metric}. '
                         f'Put a metric that both measure first in {", ".join(names)}.')
    values = [*list(progress['validations'].values())[-1:], run.value]
    if not all(map(math.isfinite, values)):
        raise ValueError(f'{run.metric}: expected finite values, got {", ".join(map(str, values))} in the last '
                         'validation and the test. Lower the learning rate, or check the data.')


def train_run(folder: Path, config: Path, hook: ProgressHook) -> str:
    """Train to the end, resuming from the newest complete checkpoint. Returns the checkpoint to test."""
    stopped = folder / TRAIN / STOPPED_CHECKPOINT
    if stopped.exists() and hook.is_time_up():
        return str(stopped)
    cfg = load_config(str(config), work_dir=str(folder / TRAIN))
    set_resume(cfg, NEWEST)
    runner = build_runner(cfg)
    runner.register_hook(hook)
    try:
        runner.train()
    except TimeIsUp:
        return str(stopped)
    return str(newest_checkpoint(folder / TRAIN))


def git_commit() -> str:
    """Commit of this package, with `-dirty` if its files were changed; '' if git does not track them."""
    def git(*arguments: str) -> str:
        return subprocess.run(['git', *arguments], cwd=Path(__file__).parents[1], capture_output=True,
                              text=True).stdout.strip()
    try:
        if not git('ls-files', '__init__.py'):
            return ''
        changes = git('--no-optional-locks', 'status', '--porcelain', '.')
        return git('rev-parse', 'HEAD') + ('-dirty' if changes else '')
    except FileNotFoundError:  # git is not installed
        return ''

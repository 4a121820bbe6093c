"""Execution of one run: training with progress reports, and test."""

import math
import os
import subprocess
import time
from pathlib import Path
from typing import Any

import torch
from mmengine.hooks import Hook
from mmengine.runner import EpochBasedTrainLoop, Runner

from mmflatten.checkpoints.run_files import newest_checkpoint
from mmflatten.engine.setup import NEWEST, build_runner, load_config, set_resume
from mmflatten.engine.test import test
from mmflatten.measure.speed.machine import describe_machine
from mmflatten.requirements import LIBRARIES, inspect
from mmflatten.untrusted.json_files import read_json

# These register the classes that configs and controls name.
from mmflatten_lab import datasets, models  # noqa: F401
from mmflatten_lab.studies.families import processor_family
from mmflatten_lab.studies.folder import (
    CONFIG,
    PROGRESS,
    RESULT,
    RUN,
    TRAIN,
    Started,
    read_file,
    write_json,
)
from mmflatten_lab.studies.runs import FINISHED, StudyRun

INTERVAL = 1.0  # seconds between two reports


class ProgressHook(Hook):
    """Write `progress.json` about once a second, and add up the costs of all attempts.

    Args:
        folder: folder of the run.
        metrics: names of metrics, of which the first that a validation has is reported.
    """

    priority = 'VERY_LOW'  # after the checkpoint

    def __init__(self, folder: Path, metrics: list[str]) -> None:
        self.folder = folder
        self.metrics = metrics
        self.state: dict[str, Any] = {'validations': {}, **read_file(folder / PROGRESS)}
        self.before = dict(self.state)  # of the earlier attempts
        self.created = time.monotonic()
        self.reported = 0.0

    def before_train(self, runner: Runner) -> None:
        self.report(runner)
        if self._is_validation_missing(runner):
            runner.val_loop.run()

    def after_train_iter(self, runner: Runner, *args: Any, **kwargs: Any) -> None:
        if time.monotonic() - self.reported >= INTERVAL:
            self.report(runner)

    def after_val_epoch(self, runner: Runner, metrics: dict[str, float] | None = None) -> None:
        name = _first_known(self.metrics, metrics or {})
        if name:
            self.state['metric'] = name
            self.state['validations'][str(_step(runner))] = float(metrics[name])
        self.report(runner)

    def _is_validation_missing(self, runner: Runner) -> bool:
        """Return True if the run was killed between a checkpoint and the validation after it."""
        if runner.val_loop is None:
            return False
        loop = runner.train_loop
        step = _step(runner)
        last = runner.max_epochs if isinstance(loop, EpochBasedTrainLoop) else runner.max_iters
        if step < max(1, loop.val_begin):
            return False
        is_due = step % loop.val_interval == 0 or step == last
        return is_due and str(step) not in self.state['validations']

    def report(self, runner: Runner) -> None:
        """Write the progress."""
        self.reported = time.monotonic()
        self.state.update(step=runner.iter, length=runner.max_iters, **self.costs())
        write_json(self.folder / PROGRESS, self.state)

    def costs(self) -> dict[str, float]:
        """Time of all attempts. `gpu_seconds` is the time for which a GPU was held."""
        wall = self.before.get('wall_seconds', 0.0) + time.monotonic() - self.created
        return dict(
            wall_seconds=wall,
            cpu_seconds=self.before.get('cpu_seconds', 0.0) + sum(os.times()[:4]),
            gpu_seconds=wall if torch.cuda.is_available() else 0.0,
        )


def _step(runner: Runner) -> int:
    """Finished epochs or iterations, depending on the training loop."""
    return runner.epoch if isinstance(runner.train_loop, EpochBasedTrainLoop) else runner.iter


def execute_run(folder: Path) -> None:
    """Train and test a run, and write its result."""
    content = read_json(folder / RUN, Started, ('result', 'metrics'))
    config = folder / CONFIG
    hook = ProgressHook(folder, content['metrics'])
    run = StudyRun(folder.name).with_result(content['result'])
    run.state = FINISHED
    run.machine = _machine()
    run.git_commit = git_commit()
    checkpoint = train_run(folder, config, hook)
    metrics = test(load_config(str(config), work_dir=str(folder / 'test')), checkpoint)
    run.metrics = {name: float(value) for name, value in metrics.items()}
    _judge(run, hook.state, content['metrics'])
    run.validations = hook.state['validations']
    vars(run).update(hook.costs())
    write_json(folder / RESULT, run.result())


def _machine() -> dict[str, Any]:
    """Versions of the libraries, and description of the device."""
    machine = {}
    for name, library in LIBRARIES.items():
        version = inspect(library).version
        if version:
            machine[name] = version
    machine.update(describe_machine('cuda' if torch.cuda.is_available() else 'cpu'))
    machine['family'] = processor_family(machine)
    machine['instructions'] = torch.backends.cpu.get_cpu_capability()
    return machine


def _judge(run: StudyRun, progress: dict[str, Any], names: list[str]) -> None:
    """Set the metric of a run to the first of `names` that its test has."""
    run.metric = _first_known(names, run.metrics)
    if not run.metric:
        raise ValueError(
            f'metrics: expected one of {", ".join(run.metrics)}, got {", ".join(names)}. Add a'
            ' metric of the test.'
        )
    run.value = run.metrics[run.metric]
    values = [*list(progress['validations'].values())[-1:], run.value]
    if not all(map(math.isfinite, values)):
        raise ValueError(
            f'{run.metric}: expected finite values, got {", ".join(map(str, values))} in the last '
            'validation and the test. Lower the learning rate, or check the data.'
        )


def _first_known(names: list[str], metrics: dict[str, float]) -> str:
    """First of `names` that is in `metrics`; '' if none is."""
    return next((name for name in names if name in metrics), '')


def train_run(folder: Path, config: Path, hook: ProgressHook) -> str:
    """Train to the end, resuming from the newest complete checkpoint. Returns the checkpoint to
    test.
    """
    cfg = load_config(str(config), work_dir=str(folder / TRAIN))
    set_resume(cfg, NEWEST)
    runner = build_runner(cfg)
    runner.register_hook(hook)
    runner.train()
    return str(newest_checkpoint(folder / TRAIN))


def git_commit() -> str:
    """Commit of this package, with `-dirty` if its files were changed; '' if git does not track
    them.
    """

    def git(*arguments: str) -> str:
        return subprocess.run(
            ['git', *arguments], cwd=Path(__file__).parents[1], capture_output=True, text=True
        ).stdout.strip()

    try:
        if not git('ls-files', '__init__.py'):
            return ''
        changes = git('--no-optional-locks', 'status', '--porcelain', '.')
        return git('rev-parse', 'HEAD') + ('-dirty' if changes else '')
    except FileNotFoundError:  # git is not installed
        return ''

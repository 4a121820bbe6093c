"""Execution of one run: training, test, and speed of the model."""
from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import torch

from mmflatten.engine.checkpoints.files import newest_checkpoint
from mmflatten.engine.setup import build_runner, load_config
from mmflatten.engine.test import test
from mmflatten.engine.train import NEWEST, set_resume
from mmflatten.measure.speed.machine import describe_machine
from mmflatten.measure.speed.models import RunSettings, model_subject
from mmflatten.measure.speed.timing import measure
from mmflatten.requirements import LIBRARIES, inspect
from mmflatten.studies.folder import CONFIG, FINISHED, PRUNED, RUN, Result, git_commit, read_json, write_result
from mmflatten.studies.grid import TRIAL
from mmflatten.studies.progress import STOPPED_CHECKPOINT, ProgressHook, Pruned, TimeIsUp


def execute_run(folder: Path) -> None:
    """Train, test and measure a run, and write its result."""
    run, config = read_json(folder / RUN), folder / CONFIG
    metrics = run['metrics']
    hook = ProgressHook(folder, metrics, run['seconds'])
    device = 'cuda' if torch.cuda.is_available() else 'cpu'
    versions = {name: inspect(library).version for name, library in LIBRARIES.items()}
    machine = {**{name: version for name, version in versions.items() if version}, **describe_machine(device)}
    result = Result(**run['result'], machine=machine)
    result.state, result.git_commit = FINISHED, git_commit()
    try:
        checkpoint = train_run(folder, config, hook)
        result.metrics = evaluate_run(folder, config, checkpoint)
        result.metric = next((name for name in metrics if name in result.metrics), '')
        if not result.metric:
            raise ValueError(f'metrics: expected one of {", ".join(result.metrics)}, got {", ".join(metrics)}. Add a '
                             'metric of the test.')
        result.value = result.metrics[result.metric]
        _check_metric(result, hook.state, metrics)
    except Pruned:
        result.state, result.metric = PRUNED, hook.state['metric']
    result.validations = hook.state['validations']
    vars(result).update(hook.costs())
    if result.state == FINISHED:
        result.throughput = _throughput(config, device, **run['throughput'])
    write_result(folder, result)


def _check_metric(result: Result, progress: dict[str, Any], metrics: list[str]) -> None:
    validated = progress.get('metric', result.metric)
    if result.mode == TRIAL and validated != result.metric:
        raise ValueError(f'metrics: expected one metric in validation and test, got {validated} and {result.metric}. '
                         f'Put a metric that both measure first in {", ".join(metrics)}.')
    values = [*list(progress['validations'].values())[-1:], result.value]
    if not all(map(math.isfinite, values)):
        raise ValueError(f'{result.metric}: expected finite values, got {", ".join(map(str, values))} in the last '
                         'validation and the test. Lower the learning rate, or check the data.')


def train_run(folder: Path, config: Path, hook: ProgressHook) -> str:
    """Train to the end, resuming from the newest complete checkpoint. Returns the checkpoint to test."""
    stopped = folder / 'train' / STOPPED_CHECKPOINT
    if stopped.exists() and hook.is_time_up():
        return str(stopped)
    cfg = load_config(str(config), work_dir=str(folder / 'train'))
    set_resume(cfg, NEWEST)
    runner = build_runner(cfg)
    runner.register_hook(hook)
    try:
        runner.train()
    except TimeIsUp:
        return str(stopped)
    return str(newest_checkpoint(folder / 'train'))


def evaluate_run(folder: Path, config: Path, checkpoint: str) -> dict[str, float]:
    """Test a checkpoint and return its metrics."""
    metrics = test(load_config(str(config), work_dir=str(folder / 'test')), checkpoint)
    return {name: float(value) for name, value in metrics.items()}


def _throughput(config: Path, device: str, shape: list[int], scales: list[float], batch: int,
                seconds: float) -> dict[str, float]:
    """Images per second of inference at each size, from the shortest time, which other processes disturb least."""
    speed = {}
    for scale in scales:
        size = (round(shape[0] * scale), round(shape[1] * scale))
        subject = model_subject(str(config), RunSettings(batch, size, device=device))
        times, = measure([subject], seconds=seconds, device=device)
        speed[f'{size[0]}x{size[1]}'] = batch / min(times)
    return speed

"""Cost of the models: parameters, operations and latency."""
from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from statistics import quantiles
from typing import Any

import torch
from mmengine.registry import DefaultScope

from mmflatten.engine.runner import Runner
from mmflatten.measure.flops.model_cost import count_config
from mmflatten.measure.speed.machine import seconds_of_others
from mmflatten.measure.speed.timing import Subject, measure
from mmflatten.predict.predictor import Predictor
from mmflatten.report.collect import TrainedRun
from mmflatten.results.analysis import ResultTable

SECONDS = 3.  # for each model


def measure_runs(runs: Sequence[TrainedRun]) -> float:
    """Count the operations of every model and time those with a checkpoint.

    Operations are counted at the size of the first test image, without a checkpoint at that of another run of the same
    task, and otherwise at the usual size of the task.

    A timed call computes the predictions of one preprocessed test image. The models are timed in turn.

    Returns:
        CPUs used by other processes during the measurement.
    """
    ready = [_ready(run) for run in runs]
    for run, found in zip(runs, ready):
        alike = [other[1] for other_run, other in zip(runs, ready) if other and other_run.task == run.task]
        if run.config is not None:
            size = found[1] if found else next(iter(alike), None)
            run.cost = run.attempt('FLOPs', count_config, run.config.filename, size)
    calls = [(run, found[0]) for run, found in zip(runs, ready) if found]
    if not calls:
        return 0.
    start, before = time.monotonic(), seconds_of_others()
    subjects = [Subject(run.name, call) for run, call in calls]
    for (run, _), seconds in zip(calls, measure(subjects, seconds=SECONDS, device=calls[0][0].predictor.device)):
        run.seconds = seconds
    return (seconds_of_others() - before) / (time.monotonic() - start)


def speed_table(runs: Sequence[TrainedRun]) -> ResultTable:
    """Latencies of the runs that were timed."""
    rows = []
    for run in runs:
        if run.seconds:
            low, median, high = (1e3 * value for value in quantiles(run.seconds, n=4, method='inclusive'))
            height, width = run.cost.shape if run.cost else ('?', '?')
            rows.append((run.name, f'{height} × {width}', f'{median:.1f}', f'{low:.1f} to {high:.1f}',
                         f'{1e3 / median:.1f}', len(run.seconds)))
    return ResultTable('One image from the output of the data pipeline to predictions',
                 ('run', 'input', 'median (ms)', 'quartiles (ms)', 'images per s', 'rounds'), rows)


def _ready(run: TrainedRun) -> tuple[Callable[[], Any], tuple[int, int]] | None:
    """Return a call to time and the network's (height, width), None if the run has no usable checkpoint."""
    if run.predictor is None:
        run.missing.setdefault('speed', 'it requires a checkpoint')
        return None
    return run.attempt('speed', _first_call, run.predictor)


def _first_call(predictor: Predictor) -> tuple[Callable[[], Any], tuple[int, int]]:
    batch = _first_batch(predictor)
    call, size = _call(predictor.model, batch), _size(predictor, batch)
    call()  # fails here, where that is noted, and not among the others
    return call, size


def _first_batch(predictor: Predictor) -> dict:
    settings = {**predictor.cfg.test_dataloader, 'batch_size': 1, 'num_workers': 0}
    with DefaultScope.overwrite_default_scope(predictor.scope):
        return next(iter(Runner.build_dataloader(settings)))


def _size(predictor: Predictor, batch: dict) -> tuple[int, int]:
    """Height and width of what the network gets."""
    inputs = predictor.model.data_preprocessor(batch, False)['inputs']
    return tuple((inputs['left'] if isinstance(inputs, dict) else inputs).shape[-2:])


def _call(model: torch.nn.Module, batch: dict) -> Callable[[], Any]:
    def call() -> Any:
        with torch.inference_mode():
            return model.test_step(batch)

    return call

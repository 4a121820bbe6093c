"""Cost of the models: parameters, operations and latency."""
from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
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
    task, and otherwise at the usual size of the task. The models are timed in turn.

    Returns:
        CPUs used by other processes during the measurement.
    """
    subjects, sizes = {}, {}
    for index, run in enumerate(runs):
        if run.predictor is None:
            run.missing.setdefault('speed', 'it requires a checkpoint')
        elif prepared := run.attempt('speed', _first_call, run.predictor):
            subjects[index], sizes[index] = Subject(run.name, prepared[0]), prepared[1]
    for index, run in enumerate(runs):
        alike = next((size for other, size in sizes.items() if runs[other].task == run.task), None)
        if run.config is not None:
            run.cost = run.attempt('FLOPs', count_config, run.config.filename, sizes.get(index, alike))
    if not subjects:
        return 0.
    start, before, device = time.monotonic(), seconds_of_others(), runs[min(subjects)].predictor.device
    for index, seconds in zip(subjects, measure(list(subjects.values()), seconds=SECONDS, device=device)):
        runs[index].seconds = seconds
    return (seconds_of_others() - before) / (time.monotonic() - start)


def _first_call(predictor: Predictor) -> tuple[Callable[[], Any], tuple[int, int]]:
    """Return a call that predicts the first test image after preprocessing, and the network's (height, width)."""
    settings = {**predictor.cfg.test_dataloader, 'batch_size': 1, 'num_workers': 0}
    with DefaultScope.overwrite_default_scope(predictor.scope):
        batch = next(iter(Runner.build_dataloader(settings)))
    inputs = predictor.model.data_preprocessor(batch, False)['inputs']
    call = torch.inference_mode()(partial(predictor.model.test_step, batch))
    call()  # fails here, where that is noted, and not among the others
    return call, tuple((inputs['left'] if isinstance(inputs, dict) else inputs).shape[-2:])


def speed_table(runs: Sequence[TrainedRun]) -> ResultTable:
    """Tabulate the latencies of the runs that were timed."""
    rows = []
    for run in runs:
        if run.seconds:
            low, median, high = (1e3 * value for value in quantiles(run.seconds, n=4, method='inclusive'))
            height, width = run.cost.shape if run.cost else ('?', '?')
            rows.append((run.name, f'{height} × {width}', f'{median:.1f}', f'{low:.1f} to {high:.1f}',
                         f'{1e3 / median:.1f}', len(run.seconds)))
    return ResultTable('One image from the output of the data pipeline to predictions',
                       ('run', 'input', 'median (ms)', 'quartiles (ms)', 'images per s', 'rounds'), rows)

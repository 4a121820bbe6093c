"""Costs of runs before they start, from models on the meta device and a timed forward pass."""
from __future__ import annotations

import contextlib
import logging
import tempfile
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean

import torch
from mmengine.config import Config
from mmengine.registry import DefaultScope

from mmflatten.console import quiet_libraries
from mmflatten.engine.datasets import DatasetError, build_dataset
from mmflatten.measure.flops.model_cost import count_model, count_parameters, image_shape
from mmflatten.measure.speed.models import RunSettings, model_subject
from mmflatten.measure.speed.timing import measure
from mmflatten.recipes.datasets import training_set
from mmflatten.recipes.disk import checkpoints_of
from mmflatten.recipes.training import Training
from mmflatten.studies.configs import check_parts, config_of
from mmflatten.studies.grid import StudyRun, digest
from mmflatten.studies.study import Study, StudyError, counted
from mmflatten.text_table import align, giga

PASSES_PER_STEP = 3  # a backward pass takes about as long as two forward passes
MAX_BATCH = 32  # images in the timed forward pass


@dataclass(frozen=True)
class Cost:
    """Costs of one run."""

    config_hash: str
    params: int
    flops: int  # multiply-accumulates of one image of `shape`
    shape: tuple[int, int]
    disk: int  # bytes
    iterations: int | None  # None if the number of images is unknown
    batch_size: int


def check_runs(study: Study, runs: Sequence[StudyRun]) -> dict[str, Cost]:
    """Build models and optimizers of all runs without data; returns the costs by name of the run.

    Raises:
        StudyError: a combination cannot be built. The message lists all of them.
    """
    costs, faults, built = {}, {}, {}
    with quiet_libraries(logging.ERROR):
        for run in runs:
            try:
                cfg = config_of(run, study.budget)
                check_parts(cfg)
                key = digest([cfg.model, cfg.optim_wrapper, cfg.train_cfg, cfg.train_dataloader, cfg.default_scope])
                built[key] = built.get(key) or _cost(cfg)
                costs[run.name] = Cost(digest(cfg.to_dict())[:12], *built[key])
            except Exception as error:  # constructors raise anything
                faults[f'{", ".join(run.levels.values())}: {type(error).__name__}: {error}'] = None
    if faults:
        raise StudyError(f'{study.name}: expected combinations that can be built, got {len(faults)} that cannot. '
                         'Correct or exclude:\n' + '\n'.join(faults))
    return costs


def _cost(cfg: Config) -> tuple:
    images = _count_images(cfg)
    training = Training.of(cfg, gpus=1, images=images or 1)
    shape = image_shape(cfg)
    iterations = training.iterations if images or not training.by_epoch else None
    return (count_parameters(training.model), count_model(training.model, shape).counts.macs, shape,
            checkpoints_of(training).most, iterations, cfg.train_dataloader.batch_size)


def _count_images(cfg: Config) -> int:
    """Number of training images; 0 if it is not known and the data set is not on this machine."""
    dataset = cfg.train_dataloader.dataset
    images, indices = training_set(dataset).images, dataset.get('indices')
    if isinstance(indices, int):
        return min(images, indices) or indices
    with contextlib.suppress(DatasetError), DefaultScope.overwrite_default_scope(cfg.default_scope):
        return images or len(build_dataset(dataset))
    return 0


def seconds_per_run(study: Study, runs: Sequence[StudyRun], costs: dict[str, Cost], cores: int,
                    say: Callable[[str], None]) -> dict[str, float]:
    """Estimate the seconds of training by name of the run, from a forward pass timed on `cores` cores of this CPU."""
    timed: dict[str, float] = {}
    seconds = {}
    threads = torch.get_num_threads()
    torch.set_num_threads(cores)
    with quiet_libraries(logging.ERROR), tempfile.TemporaryDirectory() as folder:
        for run in runs:
            cost = costs[run.name]
            cfg = config_of(run, study.budget)
            key = digest([cfg.model, cost.shape])
            if key not in timed:
                say(f'timing {", ".join(run.levels.values()) or run.base}')
                path = Path(folder, 'config.py')
                cfg.dump(path)
                subject = model_subject(str(path), RunSettings(min(MAX_BATCH, cost.batch_size), cost.shape))
                timed[key] = min(measure([subject], rounds=3)[0]) / subject.batch
            if cost.iterations is not None:
                estimate = timed[key] * cost.batch_size * cost.iterations * PASSES_PER_STEP
                seconds[run.name] = min(estimate, study.budget.seconds or estimate)
    torch.set_num_threads(threads)
    return seconds


def cost_table(study: Study, runs: Sequence[StudyRun], costs: dict[str, Cost], seconds: dict[str, float],
               workers: int | None) -> str:
    """Format the grid, a line for each cell, and the total; `workers` is None if it is unknown."""
    groups: dict[tuple, list[StudyRun]] = defaultdict(list)
    for run in runs:
        groups[(run.mode, *run.levels.values())].append(run)
    rows = []
    for names, members in groups.items():
        cost = costs[members[0].name]
        known = [seconds[run.name] for run in members if run.name in seconds]
        rows.append([*names, str(len(members)), f'{cost.params / 1e6:.3f}',
                     giga(cost.flops), 'x'.join(map(str, cost.shape)), str(cost.iterations or '-'),
                     f'{sum(known) / 3600:.3f}' if known else '-',
                     f'{sum(costs[run.name].disk for run in members) / 2**20:.0f}'])
    header = ['mode', *study.factors, 'runs', 'params (M)', 'MACs (G)', 'image', 'iterations', 'hours', 'disk (MiB)']
    disk = sum(cost.disk for cost in costs.values()) / 2**20
    table = align(rows, header, set(range(1 + len(study.factors))))
    lines = [table, '', f'{counted(len(runs), "run")}, {disk:.0f} MiB']
    if seconds:
        hours = mean(seconds.values()) * len(runs) / 3600
        shared = f', {hours / workers:.2f} on {workers}' if workers else ''
        lines.append(f'about {hours:.2f} hours of training on one worker{shared}: {PASSES_PER_STEP} forward passes as '
                     'timed here for each step, without data, validation and test')
        if workers and hours / workers > study.budget.total_hours:
            lines.append(f'more than budget.total_hours ({study.budget.total_hours:g}): the study would stop early')
    return '\n'.join(lines)

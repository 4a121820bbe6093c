"""What runs cost before they begin: every model and optimizer is built on the meta device, and a forward pass timed."""
from __future__ import annotations

import contextlib
import logging
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean

import torch
from mmengine.config import Config
from mmengine.registry import DefaultScope

from mmflatten.console import quiet_libraries
from mmflatten.engine.datasets import DatasetError, build_dataset
from mmflatten.measure.flops.inputs import image_shape
from mmflatten.measure.flops.model_cost import count_model, count_parameters
from mmflatten.measure.speed.models import RunSettings, model_subject
from mmflatten.measure.speed.timing import measure
from mmflatten.recipes.datasets import training_set
from mmflatten.recipes.disk import checkpoints_of
from mmflatten.recipes.training import Training
from mmflatten.studies.configs import check_parts, config_hash, config_of
from mmflatten.studies.grid import Run, digest
from mmflatten.studies.study import Study, StudyError, counted
from mmflatten.text_table import align, giga

PASSES_PER_STEP = 3  # a backward pass takes about as long as two forward passes
BATCH = 32  # the most images of the forward pass that is timed


@dataclass(frozen=True)
class Cost:
    """Of one run: multiply-accumulates of one image of `shape`, bytes on the disk, iterations of its training."""

    config_hash: str
    params: int
    flops: int
    shape: tuple[int, int]
    disk: int
    iterations: int | None  # None where the number of images is not known here
    images: int  # in a batch


def check_runs(study: Study, runs: Sequence[Run]) -> dict[str, Cost]:
    """Build what every run needs, without data; a Cost by the name of each run.

    Raises:
        StudyError: a combination cannot be built; names all that cannot.
    """
    costs, faults, built = {}, [], {}
    with quiet_libraries(logging.ERROR):
        for run in runs:
            try:
                cfg = config_of(run, study.budget)
                check_parts(cfg)
                key = digest([cfg.model, cfg.optim_wrapper, cfg.train_cfg, cfg.train_dataloader, cfg.default_scope])
                built[key] = built.get(key) or _cost(cfg)
                costs[run.name] = Cost(config_hash(cfg), *built[key])
            except Exception as error:  # whatever a constructor raises; all faults are told at once
                faults.append(f'{", ".join(run.levels.values())}: {type(error).__name__}: {error}')
    if faults:
        faults = list(dict.fromkeys(faults))
        raise StudyError(f'{counted(len(faults), "combination")} of study {study.name} cannot be run; correct '
                         'or exclude what is named here:\n' + '\n'.join(faults))
    return costs


def _cost(cfg: Config) -> tuple:
    images = _images(cfg)
    training = Training.of(cfg, gpus=1, images=images or 1)
    shape = image_shape(cfg)
    known = images or not training.by_epoch
    return (count_parameters(training.model), count_model(training.model, shape).counts.macs, shape,
            checkpoints_of(training).most, training.iterations if known else None, cfg.train_dataloader.batch_size)


def _images(cfg: Config) -> int:
    """Images of the training set, 0 where it is neither known nor on this machine."""
    dataset = cfg.train_dataloader.dataset
    images, part = training_set(dataset).images, dataset.get('indices')
    if isinstance(part, int):
        return min(images, part) or part
    with contextlib.suppress(DatasetError), DefaultScope.overwrite_default_scope(cfg.default_scope):
        return images or len(build_dataset(dataset))
    return 0


def seconds_per_run(study: Study, runs: Sequence[Run], costs: dict[str, Cost], cores: int,
                    say: Callable[[str], None]) -> dict[str, float]:
    """Estimated seconds of training on so many cores by the names of runs, from a forward pass timed on this CPU."""
    timed: dict[str, float] = {}
    seconds = {}
    with quiet_libraries(logging.ERROR), tempfile.TemporaryDirectory() as folder, _threads(cores):
        for run in runs:
            cost = costs[run.name]
            cfg = config_of(run, study.budget)
            key = digest([cfg.model, cost.shape])
            if key not in timed:
                say(f'timing {", ".join(run.levels.values()) or run.base}')
                path = Path(folder, 'config.py')
                cfg.dump(path)
                subject = model_subject(str(path), RunSettings(min(BATCH, cost.images), cost.shape))
                timed[key] = min(measure([subject], rounds=3)[0]) / subject.batch
            if cost.iterations is not None:
                seconds[run.name] = timed[key] * cost.images * cost.iterations * PASSES_PER_STEP
                seconds[run.name] = min(seconds[run.name], study.budget.seconds or seconds[run.name])
    return seconds


@contextlib.contextmanager
def _threads(number: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(number)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def cost_table(study: Study, runs: Sequence[Run], costs: dict[str, Cost], seconds: dict[str, float],
               workers: int | None) -> str:
    """The grid, a line for each cell, and what the whole takes; how many work at once may be unknown."""
    grouped: dict[tuple, list[Run]] = {}
    for run in runs:
        grouped.setdefault((run.mode, *run.cell), []).append(run)
    rows = []
    for (mode, *levels), members in grouped.items():
        cost = costs[members[0].name]
        known = [seconds[run.name] for run in members if run.name in seconds]
        rows.append([mode, *(name for _, name in levels), str(len(members)), f'{cost.params / 1e6:.3f}',
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
            lines.append(f'that is above budget.total_hours ({study.budget.total_hours:g}): the study would stop '
                         'before its end')
    return '\n'.join(lines)

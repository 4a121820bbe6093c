"""Costs of runs before they start, from models on the meta device and a timed forward pass."""
import logging
import math
import tempfile
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import mean
from typing import Any

import torch
from mmengine.config import Config

from mmflatten.console import quiet_libraries
from mmflatten.engine.datasets import DatasetError
from mmflatten.engine.recipe.training import Training
from mmflatten.measure.flops.model_cost import count_model, count_parameters, image_shape
from mmflatten.measure.speed.models import RunSettings, model_subject
from mmflatten.measure.speed.timing import measure
from mmflatten.text import align, giga
from mmflatten_lab.studies.configs import check_parts, config_of, metric_names
from mmflatten_lab.studies.runs import StudyRun, digest
from mmflatten_lab.studies.statistics import alpha_of_look, detectable
from mmflatten_lab.studies.study import Study, StudyError, counted

PASSES_PER_STEP = 3  # a backward pass takes about as long as two forward passes
MAX_BATCH = 32  # images in the timed forward pass


def check_runs(study: Study, runs: Sequence[StudyRun]) -> None:
    """Build models and optimizers of all runs without data, and set the costs of the runs.

    Raises:
        StudyError: a combination cannot be built. The message lists all of them.
    """
    faults, built = {}, {}
    names: dict[str, list[str] | None] = {}
    with quiet_libraries(logging.ERROR):
        for run in runs:
            try:
                cfg = config_of(run, study.budget)
                check_parts(cfg)
                key = digest([cfg.model, cfg.optim_wrapper, cfg.train_cfg, cfg.train_dataloader, cfg.default_scope])
                built[key] = built.get(key) or _costs(cfg)
                tested = digest([cfg.test_evaluator, cfg.test_dataloader])
                names[tested] = names[tested] if tested in names else metric_names(cfg)
                if names[tested] and not set(names[tested]) & set(study.metrics):
                    raise StudyError(f'metrics: expected one of {", ".join(names[tested])}, got '
                                     f'{", ".join(study.metrics)}')
                vars(run).update(config_hash=digest(cfg.to_dict())[:12], **built[key])
            except Exception as error:  # constructors raise anything
                faults[f'{", ".join(run.levels.values())}: {type(error).__name__}: {error}'] = None
    if faults:
        raise StudyError(f'{study.name}: expected combinations that can be built, got {len(faults)} that cannot. '
                         'Correct or exclude:\n' + '\n'.join(faults))


def _costs(cfg: Config) -> dict[str, Any]:
    indices = cfg.train_dataloader.dataset.get('indices')
    known, shape = True, image_shape(cfg)
    try:
        training = Training(cfg, gpus=1, images=indices if isinstance(indices, int) else None)
    except DatasetError:  # the data set is not on this machine, and its size is unknown
        training, known = Training(cfg, gpus=1, images=1), not cfg.train_cfg.get('max_epochs')
    rates = training.rates if known else [math.nan]
    peak = max(rates)
    return dict(params=count_parameters(training.model), flops=count_model(training.model, shape).counts.macs,
                shape=shape, disk=training.checkpoints.most, iterations=training.iterations if known else None,
                batch_size=cfg.train_dataloader.batch_size, peak_rate=peak,
                warmup=rates.index(peak) / len(rates) if known else math.nan)


def seconds_per_run(study: Study, runs: Sequence[StudyRun], cores: int, say: Callable[[str], None]) -> dict[str, float]:
    """Estimate the seconds of training by name of the run, from a forward pass timed on `cores` cores of this CPU."""
    timed: dict[str, float] = {}
    seconds = {}
    threads = torch.get_num_threads()
    torch.set_num_threads(cores)
    with quiet_libraries(logging.ERROR), tempfile.TemporaryDirectory() as folder:
        for run in runs:
            cfg = config_of(run, study.budget)
            key = digest([cfg.model, run.shape])
            if key not in timed:
                say(f'timing {", ".join(run.levels.values()) or run.base}')
                path = Path(folder, 'config.py')
                cfg.dump(path)
                subject = model_subject(str(path), RunSettings(min(MAX_BATCH, run.batch_size), run.shape))
                timed[key] = min(measure([subject], rounds=3)[0]) / subject.batch
            if run.iterations is not None:
                estimate = timed[key] * run.batch_size * run.iterations * PASSES_PER_STEP
                seconds[run.name] = min(estimate, study.budget.seconds or estimate)
    torch.set_num_threads(threads)
    return seconds


def cost_table(study: Study, runs: Sequence[StudyRun], seconds: dict[str, float], workers: int | None) -> str:
    """Format the grid, a line for each cell, and the total; `workers` is None if it is unknown."""
    groups: dict[tuple, list[StudyRun]] = defaultdict(list)
    for run in runs:
        groups[(run.mode, *run.levels.values())].append(run)
    rows = []
    for names, members in groups.items():
        run, known = members[0], [seconds[member.name] for member in members if member.name in seconds]
        rows.append([*names, str(len(members)), f'{run.params / 1e6:.3f}', giga(run.flops),
                     'x'.join(map(str, run.shape)), str(run.iterations or '-'), f'{run.warmup:.0%}',
                     f'{run.peak_rate:.3g}',
                     f'{sum(known) / 3600:.3f}' if known else '-', f'{sum(item.disk for item in members) / 2**20:.0f}'])
    header = ['mode', *study.factors, 'runs', 'params (M)', 'MACs (G)', 'image', 'iterations', 'warm-up', 'peak rate',
              'hours', 'disk (MiB)']
    table = align(rows, header, set(range(1 + len(study.factors))))
    if study.spread:
        tests = sum(len(claim.order) - 1 for claim in study.claims) or max(
            1, len(next(iter(study.factors.values()), ())) - 1)
        shares = ', '.join(f'{detectable(study.spread, number, tests, alpha_of_look(study)):.3g} with {number}'
                           for number in study.seed_steps)
        table += (f'\n\ndetectable difference: {shares} seeds ({counted(tests, "test")}, spread {study.spread:g}, '
                  'power 80 %)')
    lines = [table, '', f'{counted(len(runs), "run")}, {sum(run.disk for run in runs) / 2**20:.0f} MiB']
    if seconds:
        hours = mean(seconds.values()) * len(runs) / 3600
        shared = f', {hours / workers:.2f} on {workers}' if workers else ''
        lines.append(f'about {hours:.2f} hours of training on one worker{shared}: {PASSES_PER_STEP} forward passes as '
                     'timed here for each step, without data, validation and test')
        if workers and hours / workers > study.budget.total_hours:
            lines.append(f'more than budget.total_hours ({study.budget.total_hours:g}): the study would stop early')
    return '\n'.join(lines)

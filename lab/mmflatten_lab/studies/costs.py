"""Costs of runs before they start, from models without weights and data."""

import logging
import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from mmengine.config import Config

from mmflatten.console import quiet_libraries
from mmflatten.engine.datasets import DatasetError
from mmflatten.engine.recipe.training import Training
from mmflatten.measure.flops.model_cost import count_model, count_parameters, image_shape
from mmflatten.text import align, giga
from mmflatten_lab.studies.claims import alpha_per_analysis
from mmflatten_lab.studies.configs import check_parts, config_of, metric_names
from mmflatten_lab.studies.runs import StudyRun, digest
from mmflatten_lab.studies.study import Study
from mmflatten_lab.studies.study_fields import StudyError, pluralize


def check_runs(study: Study, runs: Sequence[StudyRun]) -> None:
    """Build models and optimizers of all runs without data, and set the costs of the runs.

    Raises:
        StudyError: a combination cannot be built. The message lists all of them.
    """
    faults: dict[str, None] = {}  # distinct messages in the order of the runs
    shared = _Shared()
    with quiet_libraries(logging.ERROR):
        for run in runs:
            try:
                _check_run(study, run, shared)
            except Exception as error:  # constructors raise anything
                levels = ', '.join(run.levels.values())
                faults[f'{levels}: {type(error).__name__}: {error}'] = None
    if faults:
        raise StudyError(
            f'{study.name}: expected combinations that can be built, got {len(faults)} that cannot.'
            ' Correct or exclude:\n' + '\n'.join(faults)
        )


@dataclass
class _Shared:
    """Results that several runs share, by the digest of the parts of a config that they depend on.

    Attributes:
        costs: costs of a run.
        peaks: highest learning rate of a schedule, and fraction of the steps before it.
        names: names of the metrics of the test, None if unknown.
    """

    costs: dict[str, dict[str, Any]] = field(default_factory=dict)
    peaks: dict[str, tuple[float, float]] = field(default_factory=dict)
    names: dict[str, list[str] | None] = field(default_factory=dict)


def _check_run(study: Study, run: StudyRun, shared: _Shared) -> None:
    """Build a run and set its costs."""
    cfg = config_of(run, study.budget)
    check_parts(cfg)
    trained = digest(
        [
            cfg.model,
            cfg.optim_wrapper,
            cfg.get('param_scheduler'),
            cfg.train_cfg,
            cfg.train_dataloader,
            cfg.default_scope,
        ]
    )
    if trained not in shared.costs:
        shared.costs[trained] = _costs(cfg, shared)
    tested = digest([cfg.test_evaluator, cfg.test_dataloader])
    if tested not in shared.names:
        shared.names[tested] = metric_names(cfg)
    names = shared.names[tested]
    if names and not set(names) & set(study.metrics):
        raise StudyError(
            f'metrics: expected one of {", ".join(names)}, got {", ".join(study.metrics)}'
        )
    vars(run).update(config_hash=digest(cfg.to_dict())[:12], **shared.costs[trained])


def _costs(cfg: Config, shared: _Shared) -> dict[str, Any]:
    indices = cfg.train_dataloader.dataset.get('indices')
    images = indices if isinstance(indices, int) else None
    shape = image_shape(cfg)
    known = True
    try:
        training = Training(cfg, gpus=1, images=images)
    except DatasetError:
        # The data set is not on this machine, so the length of an epoch is unknown.
        training = Training(cfg, gpus=1, images=1)
        known = not cfg.train_cfg.get('max_epochs')
    peak, warmup = _peak(training, shared) if known else (math.nan, math.nan)
    return dict(
        params=count_parameters(training.model),
        flops=count_model(training.model, shape).counts.macs,
        shape=shape,
        disk=training.checkpoints.most,
        iterations=training.iterations if known else None,
        batch_size=cfg.train_dataloader.batch_size,
        peak_rate=peak,
        warmup=warmup,
    )


def _peak(training: Training, shared: _Shared) -> tuple[float, float]:
    """Highest learning rate of a training, and the fraction of the steps before it.

    Computing a schedule takes longer than building a model, and most models share one.
    """
    highest = max(group['lr'] for group in training.optimizer.param_groups)
    schedule = digest(
        [
            training.cfg.get('param_scheduler'),
            training.scope,
            training.by_epoch,
            training.length,
            training.iterations,
            highest * training.lr_factor,
        ]
    )
    if schedule not in shared.peaks:
        rates = training.rates
        peak = max(rates)
        shared.peaks[schedule] = (peak, rates.index(peak) / len(rates))
    return shared.peaks[schedule]


def cost_table(study: Study, runs: Sequence[StudyRun]) -> str:
    """Format the grid, a line for each cell, and the total."""
    groups: dict[tuple, list[StudyRun]] = defaultdict(list)
    for run in runs:
        groups[(run.mode, *run.levels.values())].append(run)
    rows = []
    for names, members in groups.items():
        run = members[0]
        rows.append(
            [
                *names,
                str(len(members)),
                f'{run.params / 1e6:.3f}',
                giga(run.flops),
                'x'.join(map(str, run.shape)),
                str(run.iterations or '-'),
                f'{run.warmup:.0%}',
                f'{run.peak_rate:.3g}',
                f'{sum(item.disk for item in members) / 2**20:.0f}',
            ]
        )
    header = [
        'mode',
        *study.factors,
        'runs',
        'params (M)',
        'MACs (G)',
        'image',
        'iterations',
        'warm-up',
        'peak rate',
        'disk (MiB)',
    ]
    paragraphs = [align(rows, header, set(range(1 + len(study.factors))))]
    if study.std:
        paragraphs.append(_detectable_differences(study, study.std))
    disk = sum(run.disk for run in runs) / 2**20
    paragraphs.append(f'{pluralize(len(runs), "run")}, {disk:.0f} MiB')
    return '\n\n'.join(paragraphs)


def _detectable_differences(study: Study, std: float) -> str:
    from mmflatten_lab.studies.statistics import detectable  # imports statsmodels, which is slow

    tests = sum(len(claim.order) - 1 for claim in study.claims)
    if not tests:
        # Without claims, every other level of the first factor is compared with the first one.
        levels = next(iter(study.factors.values()), ())
        tests = max(1, len(levels) - 1)
    differences = []
    for number in study.seed_counts:
        difference = detectable(std, number, tests, alpha_per_analysis(study))
        differences.append(f'{difference:.3g} with {number}')
    return (
        f'detectable difference: {", ".join(differences)} seeds ({pluralize(tests, "test")},'
        f' standard deviation {std:g}, power 80 %)'
    )

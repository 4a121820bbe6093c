"""Costs of runs before they start, from models without weights and data."""

import logging
import math
from collections import defaultdict
from collections.abc import Sequence
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
from mmflatten_lab.studies.statistics import detectable
from mmflatten_lab.studies.study import Study
from mmflatten_lab.studies.study_fields import StudyError, pluralize


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
                key = digest(
                    [
                        cfg.model,
                        cfg.optim_wrapper,
                        cfg.train_cfg,
                        cfg.train_dataloader,
                        cfg.default_scope,
                    ]
                )
                built[key] = built.get(key) or _costs(cfg)
                tested = digest([cfg.test_evaluator, cfg.test_dataloader])
                names[tested] = names[tested] if tested in names else metric_names(cfg)
                if names[tested] and not set(names[tested]) & set(study.metrics):
                    raise StudyError(
                        f'metrics: expected one of {", ".join(names[tested])}, got '
                        f'{", ".join(study.metrics)}'
                    )
                vars(run).update(config_hash=digest(cfg.to_dict())[:12], **built[key])
            except Exception as error:  # constructors raise anything
                faults[f'{", ".join(run.levels.values())}: {type(error).__name__}: {error}'] = None
    if faults:
        raise StudyError(
            f'{study.name}: expected combinations that can be built, got {len(faults)} that cannot.'
            ' Correct or exclude:\n' + '\n'.join(faults)
        )


def _costs(cfg: Config) -> dict[str, Any]:
    indices = cfg.train_dataloader.dataset.get('indices')
    known, shape = True, image_shape(cfg)
    try:
        training = Training(cfg, gpus=1, images=indices if isinstance(indices, int) else None)
    except DatasetError:  # the data set is not on this machine, and its size is unknown
        training, known = Training(cfg, gpus=1, images=1), not cfg.train_cfg.get('max_epochs')
    rates = training.rates if known else [math.nan]
    peak = max(rates)
    return dict(
        params=count_parameters(training.model),
        flops=count_model(training.model, shape).counts.macs,
        shape=shape,
        disk=training.checkpoints.most,
        iterations=training.iterations if known else None,
        batch_size=cfg.train_dataloader.batch_size,
        peak_rate=peak,
        warmup=rates.index(peak) / len(rates) if known else math.nan,
    )


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
    table = align(rows, header, set(range(1 + len(study.factors))))
    if study.std:
        tests = sum(len(claim.order) - 1 for claim in study.claims) or max(
            1, len(next(iter(study.factors.values()), ())) - 1
        )
        alpha = alpha_per_analysis(study)
        differences = ', '.join(
            f'{detectable(study.std, number, tests, alpha):.3g} with {number}'
            for number in study.seed_counts
        )
        table += (
            f'\n\ndetectable difference: {differences} seeds ({pluralize(tests, "test")}, standard'
            f' deviation {study.std:g}, power 80 %)'
        )
    return (
        f'{table}\n\n{pluralize(len(runs), "run")}, {sum(run.disk for run in runs) / 2**20:.0f} MiB'
    )

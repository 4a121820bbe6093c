"""Runs of a study, each with a stable name.

The grid has a run for every combination of levels and seeds that is not excluded.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain, product, repeat
from typing import Any

from mmflatten_lab.studies.options import BASE
from mmflatten_lab.studies.study import Study
from mmflatten_lab.studies.study_fields import SEED, StudyError

# modes: runs of the grid, and runs outside the grid
GRID = 'recipe'
BASELINE = 'baseline'
DATA = ('_dataloader', '_evaluator')  # ends of the fields that a baseline shares with the grid
FINISHED = 'finished'
FAILED = 'failed'
RUNNING = 'running'
WAITING = 'waiting'
ENDED = (FINISHED, FAILED)
MAX_RUNS = 10_000
MAX_NAME = 200  # characters, of a folder
PLANNED = ('base', 'options', 'shape', 'disk', 'iterations', 'batch_size', 'peak_rate', 'warmup')


@dataclass
class StudyRun:
    """One training with its test. Times include all attempts."""

    name: str
    mode: str = GRID
    # factor -> level; runs of one cell have the same levels
    levels: dict[str, str] = field(default_factory=dict)
    seed: int = 0
    state: str = WAITING
    metric: str = ''
    value: float | None = None
    metrics: dict[str, float] = field(default_factory=dict)
    validations: dict[str, float] = field(default_factory=dict)  # epoch or iteration -> metric
    wall_seconds: float = 0.0
    cpu_seconds: float = 0.0
    gpu_seconds: float = 0.0
    params: int = 0
    flops: int = 0  # multiply-accumulates of one image
    config_hash: str = ''
    git_commit: str = ''
    machine: dict[str, Any] = field(default_factory=dict)
    error: str = ''
    # `PLANNED` fields follow from the study file, and are not written.
    base: str = ''  # config
    options: dict[str, Any] = field(default_factory=dict)  # fields that differ from the config
    shape: tuple[int, int] = (0, 0)  # of an image
    disk: int = 0  # bytes
    iterations: int | None = None  # None if the number of images is unknown
    batch_size: int = 0
    peak_rate: float = math.nan  # learning rate
    warmup: float = math.nan  # fraction of the steps before the peak

    def result(self) -> dict[str, Any]:
        """Content of `result.json`."""
        return {key: value for key, value in vars(self).items() if key not in PLANNED}

    def with_result(self, result: Mapping[str, Any]) -> StudyRun:
        """Return a copy of this run with the fields of a result. The name stays, and fields of
        other versions of mmflatten are ignored.
        """
        changes = {}
        for key in self.result():
            if key in result and key != 'name':
                changes[key] = result[key]
        return replace(self, **changes)


def finished_runs(runs: Iterable[StudyRun]) -> list[StudyRun]:
    return [run for run in runs if run.state == FINISHED]


def expand(study: Study) -> list[StudyRun]:
    """Make the baselines, the controls, and the other runs of the grid with the seeds of the first
    interim analysis.

    Raises:
        StudyError: all runs are excluded or they are too many, a run has no base, or two factors
            set one field.
    """
    number = math.prod(map(len, study.factors.values())) * len(study.seeds)
    if number > MAX_RUNS:
        raise StudyError(
            f'factors: expected at most {MAX_RUNS} runs before exclusions, got {number}. Split the'
            ' study.'
        )
    first = study.seeds[: study.seed_counts[0]]
    runs = []
    for levels, seeds in cells(study):
        # Controls have all seeds from the start, because every analysis compares with them.
        needs_all_seeds = study.is_control(levels)
        for seed in seeds:
            if needs_all_seeds or seed in first:
                runs.append(make_run(study, levels, seed))
    if not runs:
        raise StudyError(
            f'exclude: expected runs to remain, got none of {study.name}. Exclude fewer'
            ' combinations.'
        )
    # Seed by seed, so that the runs of a study that is interrupted are complete blocks.
    runs.sort(key=lambda run: study.seeds.index(run.seed))
    return [make_baseline(study, name) for name in study.baselines] + runs


def cells(study: Study) -> list[tuple[dict[str, str], list[int]]]:
    """Combinations of levels with their seeds, without excluded ones."""
    remaining = []
    for names in product(*study.factors.values()):
        levels = dict(zip(study.factors, names))
        seeds = [seed for seed in study.seeds if not _is_excluded(study, levels, seed)]
        if seeds:
            remaining.append((levels, seeds))
    return remaining


def _is_excluded(study: Study, levels: Mapping[str, str], seed: int) -> bool:
    run = {**levels, SEED: str(seed)}
    return any(matches(run, pattern) for pattern in study.exclude)


def matches(levels: Mapping[str, str], pattern: Mapping[str, list[str]]) -> bool:
    """Return True if levels match a pattern of `exclude` or `where`."""
    return all(levels[factor] in names for factor, names in pattern.items())


def make_run(study: Study, levels: dict[str, str], seed: int) -> StudyRun:
    """Make a run of a cell. `overrides` have precedence over levels, and these over the study's
    options.
    """
    options = {**study.options, **_joined(study, levels)}
    for override in study.overrides:
        if matches({**levels, SEED: str(seed)}, override.where):
            options = _overridden(options, override.options)
    labels = []
    for factor, level in levels.items():
        # A factor that is a config field is named by the last part of its path.
        prefix = factor.rpartition('.')[2] if '.' in factor else ''
        labels.append(prefix + level)
    return _named_run(
        StudyRun(name='', mode=GRID, levels=levels, seed=seed, options=options),
        study,
        labels=[*labels, f's{seed}'],
        identity=[levels, seed, GRID, None],
    )


def _overridden(options: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Options with changes. A changed field also replaces the fields inside it."""
    replaced = tuple(f'{path}.' for path in changes)
    kept = {path: value for path, value in options.items() if not path.startswith(replaced)}
    return {**kept, **changes}


def make_baseline(study: Study, name: str) -> StudyRun:
    """Make the run of a baseline, a level of the first factor outside the grid, with the study's
    data.
    """
    levels = dict(zip(study.factors, chain([name], repeat('-'))))
    options = {}
    for path, value in study.options.items():
        if path.partition('.')[0].endswith(DATA):
            options[path] = value
    options.update(study.baselines[name])
    return _named_run(
        StudyRun(name='', mode=BASELINE, levels=levels, seed=study.seeds[0], options=options),
        study,
        labels=[name, BASELINE],
        identity=[BASELINE, name],
    )


def _named_run(run: StudyRun, study: Study, labels: list[str], identity: list) -> StudyRun:
    """Complete a run with its base and a name that stays the same while the study grows."""
    # A field is set before the fields inside it, so that none of them is lost.
    outer_first = sorted(run.options, key=lambda path: path.count('.'))
    options = {path: run.options[path] for path in outer_first}
    base = options.pop(BASE, study.base)
    if base is None:
        raise StudyError(
            f'base: expected a config for every run, got none for {run.levels}. Set base, or base'
            ' in a level.'
        )
    *levels, end = labels
    safe = [re.sub(r'[^A-Za-z0-9.+-]+', '-', level).strip('-') for level in levels]
    name = '_'.join([*safe, end, digest(identity)[:6]])
    if len(name) > MAX_NAME:
        raise StudyError(
            f'factors: expected names of levels with at most {MAX_NAME} characters in all, got'
            f' {name}. Shorten them.'
        )
    return replace(run, name=name, base=base, options=options)


def _joined(study: Study, levels: Mapping[str, str]) -> dict[str, Any]:
    """Fields that the levels set. Two levels may set the same field to the same value."""
    joined: dict[str, Any] = {}
    known: dict[str, Any] = {}
    for factor, level in levels.items():
        fields = study.factors[factor][level]
        nested: dict[str, Any] = {}
        for path, value in fields.items():
            nested.update(_nested(path, value))
        for path, value in nested.items():
            if known.get(path, value) != value:
                raise StudyError(
                    f'{path}: expected one value, got {known[path]} and {value} from the levels'
                    f' {levels}. Set it in one factor.'
                )
        known.update(nested)
        joined.update(fields)
    return joined


def _nested(path: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Yield a field and the fields inside it."""
    yield path, value
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _nested(f'{path}.{key}', item)


def digest(content: Any) -> str:
    """Hash plain content independently of the order of its keys."""
    return hashlib.sha256(json.dumps(content, sort_keys=True, default=str).encode()).hexdigest()

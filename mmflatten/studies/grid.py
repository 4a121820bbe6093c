"""Runs of a study: one for every combination of levels and seeds that is not excluded, each with a stable name."""
from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import permutations, product
from typing import Any

from mmflatten.studies.study import BASE, SEED, Study, StudyError

GRID, TRIAL, BEST = 'recipe', 'trial', 'best'  # runs of the grid, trials of the search, cells with tuned settings


@dataclass(frozen=True)
class StudyRun:
    """One training with its test. `options` are the fields that differ from the config `base`."""

    name: str
    levels: dict[str, str]  # factor -> name of its level; runs of one cell have the same levels
    seed: int
    base: str
    options: dict[str, Any]
    mode: str = GRID
    tuned: dict[str, float] | None = None  # settings of a trial or of a tuned cell


def expand(study: Study) -> list[StudyRun]:
    """Make the runs of the grid, the seeds of a cell one after another.

    Raises:
        StudyError: all runs are excluded, a run has no base, or two factors set one field.
    """
    runs = [make_run(study, levels, seed) for levels in cells(study) for seed in seeds_of(study, levels)]
    if not runs:
        raise StudyError(f'exclude: expected runs to remain, got none of {study.name}. Exclude fewer combinations.')
    return runs


def cells(study: Study) -> list[dict[str, str]]:
    """Combinations of levels with at least one seed that is not excluded."""
    combinations = [dict(zip(study.factors, levels)) for levels in product(*study.factors.values())]
    return [levels for levels in combinations if seeds_of(study, levels)]


def seeds_of(study: Study, levels: Mapping[str, str]) -> list[int]:
    """Seeds of a cell that are not excluded."""
    return [seed for seed in study.seeds
            if not any(matches({**levels, SEED: str(seed)}, pattern) for pattern in study.exclude)]


def matches(levels: Mapping[str, str], pattern: Mapping[str, list[str]]) -> bool:
    """Return True if levels match a pattern of `exclude` or `where`."""
    return all(levels[factor] in names for factor, names in pattern.items())


def make_run(study: Study, levels: dict[str, str], seed: int, mode: str = GRID,
             tuned: dict[str, float] | None = None, trial: int | None = None) -> StudyRun:
    """Make a run of a cell. Tuned settings override the options of levels, which override those of the study."""
    options = {**study.options, **_joined(study, levels), **(tuned or {})}
    # A field is set before the fields inside it, so that none of them is lost.
    options = {path: options[path] for path in sorted(options, key=lambda path: path.count('.'))}
    base = options.pop(BASE, study.base)
    if base is None:
        raise StudyError(f'base: expected a config for every run, got none for {levels}. Set base, or base in a level.')
    labels = [re.sub(r'[^A-Za-z0-9.+-]+', '-', (factor.rpartition('.')[2] if '.' in factor else '') + level).strip('-')
              for factor, level in levels.items()]
    end = {GRID: f's{seed}', TRIAL: f'trial{trial}', BEST: f'best_s{seed}'}[mode]
    name = '_'.join([*labels, end, digest([levels, seed, mode, trial])[:6]])
    return StudyRun(name, levels, seed, base, options, mode, tuned)


def _joined(study: Study, levels: Mapping[str, str]) -> dict[str, Any]:
    """Fields that the levels set. Two levels may set the same field if they agree on its value."""
    named = [(name, study.factors[factor][name]) for factor, name in levels.items()]
    for (one, outer_fields), (other, inner_fields) in permutations(named, 2):
        for (outer, value), (inner, wanted) in product(outer_fields.items(), inner_fields.items()):
            if _value_at(outer, value, inner, wanted) != wanted:
                raise StudyError(f'{inner}: expected one value, got different values from the levels {one} and '
                                 f'{other}. Set it in one factor.')
    return {path: value for _, fields in named for path, value in fields.items()}


def _value_at(outer: str, value: Any, inner: str, default: Any) -> Any:
    """Value of the field `inner` inside the field `outer`, which has `value`; `default` if it is not inside."""
    if inner == outer:
        return value
    if not inner.startswith(f'{outer}.'):
        return default
    for part in inner.removeprefix(f'{outer}.').split('.'):
        if not isinstance(value, dict) or part not in value:
            return default
        value = value[part]
    return value


def digest(content: Any) -> str:
    """Hash plain content, whatever the order of its keys."""
    return hashlib.sha256(json.dumps(content, sort_keys=True, default=str).encode()).hexdigest()

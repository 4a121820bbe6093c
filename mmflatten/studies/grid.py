"""From a study to its runs: every combination of levels and seeds that is not excluded, each with a stable name."""
from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from itertools import permutations, product
from typing import Any

from mmflatten.studies.study import BASE, SEED, Level, Study, StudyError

GRID, TRIAL, BEST = 'recipe', 'trial', 'best'  # the grid as written, trials of a search, each cell at its best


@dataclass(frozen=True)
class Run:
    """One training with its test. `options` are the fields of the config `base` that differ."""

    name: str
    levels: dict[str, str]  # factor -> name of its level
    seed: int
    base: str
    options: dict[str, Any]
    mode: str = GRID
    tuned: dict[str, float] | None = None  # of a trial, and of a cell at its best

    @property
    def cell(self) -> tuple[tuple[str, str], ...]:
        """The levels: runs of a cell differ by their seed, or by what is tuned."""
        return tuple(self.levels.items())


def expand(study: Study) -> list[Run]:
    """The runs of the grid, the seeds of a cell one after another.

    Raises:
        StudyError: no run is left, a run has no base, or two factors set one field.
    """
    runs = [make_run(study, levels, seed) for levels in cells(study) for seed in seeds_of(study, levels)]
    if not runs:
        raise StudyError(f'study {study.name} has no run; look at factors and exclude')
    return runs


def cells(study: Study) -> list[tuple[Level, ...]]:
    """The combinations of levels that are not excluded with all their seeds."""
    return [levels for levels in product(*study.factors.values()) if seeds_of(study, levels)]


def seeds_of(study: Study, levels: tuple[Level, ...]) -> list[int]:
    """The seeds of a combination of levels that are not excluded."""
    names = _names(study, levels)
    return [seed for seed in study.seeds
            if not any(matches({**names, SEED: str(seed)}, pattern) for pattern in study.exclude)]


def _names(study: Study, levels: tuple[Level, ...]) -> dict[str, str]:
    return dict(zip(study.factors, (level.name for level in levels)))


def matches(levels: dict[str, str], pattern: dict[str, tuple[str, ...]]) -> bool:
    """Whether a pattern, as `exclude` and `where` have them, is true of a run's levels."""
    return all(levels[factor] in names for factor, names in pattern.items())


def make_run(study: Study, levels: tuple[Level, ...], seed: int, mode: str = GRID,
             tuned: dict[str, float] | None = None, trial: int | None = None) -> Run:
    """The run of a cell: its options are the study's, then those of its levels, then what is tuned.

    A field goes before the fields inside of it, whoever sets them, so that none is lost.
    """
    names, given = _names(study, levels), _joined(levels)
    options = {**study.options, **given, **(tuned or {})}
    options = {path: options[path] for path in sorted(options, key=lambda path: path.count('.'))}
    base = options.pop(BASE, study.base)
    if base is None:
        raise StudyError(f'{names} has no base; name a config in base, or in a level of a factor')
    end = {GRID: f's{seed}', TRIAL: f'trial{trial}', BEST: f'best_s{seed}'}[mode]
    return Run('_'.join([*map(_label, names.items()), end, _short_hash(names, seed, mode, trial)]), names, seed, base,
               options, mode, tuned)


def _joined(levels: tuple[Level, ...]) -> dict[str, Any]:
    """The fields that levels set. Two levels may set one field only if both set it alike."""
    for one, other in permutations(levels, 2):
        for (outer, value), (inner, wanted) in product(one.options.items(), other.options.items()):
            if _inside(outer, inner, value, wanted) != wanted:
                raise StudyError(f'{inner} is set by two factors, at their levels {one.name} and {other.name}')
    return {path: value for level in levels for path, value in level.options.items()}


def _inside(outer: str, inner: str, value: Any, default: Any) -> Any:
    """What the field `inner` is in the `value` of the field `outer`; `default` where it is not in it."""
    if inner == outer:
        return value
    if not inner.startswith(f'{outer}.'):
        return default
    for part in inner.removeprefix(f'{outer}.').split('.'):
        if not isinstance(value, dict) or part not in value:
            return default
        value = value[part]
    return value


def _label(level: tuple[str, str]) -> str:
    """A level in the name of a run; a field of the config says which it is."""
    factor, name = level
    return re.sub(r'[^A-Za-z0-9.+-]+', '-', (factor.rpartition('.')[2] if '.' in factor else '') + name).strip('-')


def _short_hash(*values: Any) -> str:
    return digest(values)[:6]


def digest(content: Any) -> str:
    """A hash of plain content that does not depend on the order of its keys."""
    return hashlib.sha256(json.dumps(content, sort_keys=True, default=str).encode()).hexdigest()

"""Types of the fields of a study file, and how they are read from YAML."""

from __future__ import annotations

import reprlib
from collections.abc import Collection, Mapping
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field

from mmflatten_lab.studies.options import BASE, check_options

SEED = 'seed'
ATTENTION = 'attention'  # factor whose levels may be a list of attention classes
MANY = 1000  # seeds, exclusions and claims
FEW = 200  # characters of a text in a message


class StudyError(ValueError):
    """Error in a study that prevents its runs."""


def pluralize(number: int, thing: str) -> str:
    return f'{number} {thing}' if number == 1 else f'{number} {thing}s'


def check_name(where: str, name: str, known: Collection[str]) -> None:
    if name not in known:
        raise StudyError(
            f'{where}: expected one of {excerpt(", ".join(known))}, got {excerpt(name)}. Correct or'
            ' remove it.'
        )


def check_pattern(where: str, pattern: Pattern, known: Mapping[str, Collection[str]]) -> None:
    for factor, names in pattern.items():
        check_name(where, factor, known)
        for name in names:
            check_name(f'{where}: {factor}', name, known[factor])


def excerpt(value: Any) -> str:
    """Format a value for a message. Long and deeply nested values are shortened."""
    if isinstance(value, str):
        return value if len(value) <= FEW else f'{value[:FEW]}...'
    return reprlib.repr(value)


def text_keys(value: Any) -> Any:
    """Convert the keys of a mapping to text. An empty value in YAML is an empty mapping."""
    if value is None:
        return {}
    if not isinstance(value, dict):
        return value
    return {str(key): item for key, item in value.items()}


def distinct(values: list) -> list:
    seen: set[str] = set()
    for value in values:
        if repr(value) in seen:
            raise ValueError(
                f'expected distinct values, got {excerpt(values)}. Keep one {excerpt(value)}.'
            )
        seen.add(repr(value))
    return values


def read_levels(factors: Any) -> Any:
    """Expand factors that are lists (attention classes, base configs or values of a config field)
    into named levels.
    """
    factors = text_keys(factors)
    if not isinstance(factors, dict):
        return factors
    named = {}
    for factor, levels in factors.items():
        if factor == SEED:
            continue
        if isinstance(levels, list) and (factor in (ATTENTION, BASE) or '.' in factor):
            levels = _named_levels(factor, levels)
        named[factor] = text_keys(levels)
    return named


def _named_levels(factor: str, values: list) -> dict[Any, dict[str, Any]]:
    """Name the levels of a factor by their values."""
    if len(set(map(str, values))) < len(values):
        raise ValueError(
            f'{factor}: expected distinct levels, got {excerpt(values)}. Remove the repeated one.'
        )
    levels = {}
    for value in values:
        if factor == ATTENTION:
            levels[value] = {'model.backbone.linear_attention': {'_delete_': True, 'type': value}}
        else:
            levels[str(value)] = {factor: value}
    return levels


def read_metrics(value: Any) -> Any:
    """Read a list of metrics as metrics where higher is better."""
    if isinstance(value, list) and all(isinstance(name, str) for name in value):
        return dict.fromkeys(distinct(value), 'higher')
    return text_keys(value)


def read_pattern(value: Any) -> Any:
    """Read `{task: detection, attention: [hydra, sima]}` with a list of levels for every factor."""
    value = text_keys(value)
    if not isinstance(value, dict):
        return value
    pattern = {}
    for factor, levels in value.items():
        listed = levels if isinstance(levels, (list, tuple)) else [levels]
        pattern[factor] = [str(level) for level in listed]
    return pattern


def _seed_list(value: Any) -> Any:
    """Read a number of seeds as the seeds from 0."""
    if type(value) is not int:  # a bool is not a number of seeds
        return value
    if value > MANY:
        raise ValueError(f'expected at most {MANY} seeds, got {value}. Lower it.')
    return list(range(value))


def split_order(value: Any) -> Any:
    return [step.strip() for step in value.split('>')] if isinstance(value, str) else value


# An epoch has at least one iteration, and `mmflatten.engine.recipe` accepts as many of them.
Count = Annotated[int, Field(gt=0, le=10**8)]
Reason = Annotated[str, Field(min_length=10)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Seeds = Annotated[
    list[Annotated[int, Field(ge=0, lt=2**32)]],
    BeforeValidator(_seed_list),
    Field(min_length=1, max_length=MANY),
    AfterValidator(distinct),
]
Options = Annotated[dict[str, Any], BeforeValidator(text_keys), AfterValidator(check_options)]
Pattern = Annotated[dict[str, list[str]], BeforeValidator(read_pattern)]
# name of a level -> fields of the config that it sets; `base` is a config
Levels = dict[str, Options]

"""Data model of a study file, checked by pydantic."""
from __future__ import annotations

import difflib
import math
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationInfo,
    field_validator,
    model_validator,
)

SEED, BASE, FULL = 'seed', 'base', 'full'


class StudyError(ValueError):
    """A study that cannot be run as written."""


def counted(number: int, thing: str) -> str:
    return f'{number} {thing}' if number == 1 else f'{number} {thing}s'


def unknown(name: Any, known: Iterable[str]) -> str:
    """Describe an unknown name, with the nearest known one."""
    known = list(known)
    near = difflib.get_close_matches(str(name), known, 1)
    hint = f'Did you mean {near[0]}?' if near else 'Correct or remove it.'
    return f'expected {"one of " if known else "no name"}{", ".join(known)}, got {name}. {hint}'


def text_keys(value: Any) -> Any:
    """Convert the keys of a mapping to text. An empty value in YAML is an empty mapping."""
    if value is None:
        return {}
    return {str(key): item for key, item in value.items()} if isinstance(value, dict) else value


def _distinct(values: list) -> list:
    repeated = [value for value in values if values.count(value) > 1]
    if repeated:
        raise ValueError(f'expected distinct values, got {values}. Keep one {repeated[0]}.')
    return values


def _folder_name(name: str) -> str:
    if not name or '/' in name or name.startswith('.'):
        raise ValueError(f'expected a folder name, got {name!r}. Use a name without slashes and leading dots.')
    return name


def _seeds(value: Any) -> list[int]:
    """Read a number of seeds or a list of seeds."""
    seeds = list(range(value)) if type(value) is int else value
    wrong = [seed for seed in seeds if type(seed) is not int or seed < 0] if isinstance(seeds, list) else []
    if wrong or not isinstance(seeds, list) or not seeds:
        fix = f'Remove {wrong[0]}.' if wrong else 'Give a number above zero or a list.'
        raise ValueError(f'expected a number of seeds or a list of non-negative integers, got {value}. {fix}')
    return seeds


def _levels(factors: Any) -> Any:
    """Write out the factors that are lists: a field of the config with its values, or attention classes."""
    factors = text_keys(factors)
    if not isinstance(factors, dict):
        return factors
    return {name: _levels_of(name, levels) if isinstance(levels, list) else text_keys(levels)
            for name, levels in factors.items()}


def _levels_of(factor: str, values: list) -> dict[str, dict[str, Any]]:
    if factor not in ('attention', BASE) and '.' not in factor:
        raise StudyError(f'factors.{factor}: expected a mapping of level names to options, got {values}. Only '
                         'attention, base and fields of the config (model.backbone.drop_path_rate) can be lists.')
    names = [str(value) for value in values]
    if len(set(names)) < len(names):
        raise StudyError(f'factors.{factor}: expected distinct levels, got {values}. Remove the repeated one.')
    if factor == 'attention':
        return {name: {'model.backbone.linear_attention': {'_delete_': True, 'type': name}} for name in names}
    return {name: {factor: value} for name, value in zip(names, values)}


def _metrics(value: Any) -> Any:
    """Read a list of metrics as metrics where higher is better."""
    if isinstance(value, list) and all(isinstance(name, str) for name in value):
        return dict.fromkeys(_distinct(value), 'higher')
    return text_keys(value)


def _pattern(value: Any) -> Any:
    """Read `{task: detection, attention: [hydra, sima]}` with a list of levels for every factor."""
    value = text_keys(value)
    return {factor: [str(level) for level in (levels if isinstance(levels, list) else [levels])]
            for factor, levels in value.items()} if isinstance(value, dict) else value


Count = Annotated[int, Field(gt=0)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Options = Annotated[dict[str, Any], BeforeValidator(text_keys)]
Pattern = Annotated[dict[str, list[str]], BeforeValidator(_pattern)]
Levels = dict[str, Options]  # name of a level -> fields of the config that it sets; `base` is a config


class StudyPart(BaseModel):
    """A mapping in a study file without unknown fields."""

    model_config = ConfigDict(frozen=True, extra='forbid', strict=True)

    @model_validator(mode='before')
    @classmethod
    def _read_keys(cls, content: Any) -> Any:
        return text_keys(content)


class Budget(StudyPart):
    """Limits of each run. Configs use `epochs` or `iterations`, depending on their training loop."""

    epochs: Count | None = None
    iterations: Count | None = None
    seconds: Positive | None = None  # training time, after which the run is tested as it is
    total_hours: Positive = math.inf  # time after which no further run starts

    @model_validator(mode='after')
    def _check_length(self) -> Budget:
        if self.epochs is self.iterations is self.seconds is None:
            raise ValueError('expected the length of a run, got none. Set epochs, iterations or seconds.')
        return self


class Tune(StudyPart):
    """Search over fields of the config: `trials` values between the limits of each field, for every cell."""

    model_config = ConfigDict(extra='allow')
    __pydantic_extra__: dict[str, Annotated[list[float], Field(min_length=2, max_length=2)]]

    trials: Annotated[int, Field(ge=2)] = 8
    log: bool = True

    @property
    def ranges(self) -> dict[str, list[float]]:
        """Field of the config -> [low, high]."""
        return self.__pydantic_extra__

    @model_validator(mode='after')
    def _check_ranges(self) -> Tune:
        if not self.ranges:
            raise ValueError('expected a field of the config, got none. Add one, such as '
                             'optim_wrapper.optimizer.lr: [1e-4, 1e-2].')
        for path, (low, high) in self.ranges.items():
            if not (0 if self.log else -math.inf) < low < high < math.inf:
                fix = 'Use numbers above zero, or set log: false.' if self.log and low <= 0 else 'Sort them.'
                raise StudyError(f'tune.{path}: expected [low, high], got [{low}, {high}]. {fix}')
        return self


class Throughput(StudyPart):
    """Settings for measuring the speed of each model, with random weights."""

    scales: Annotated[list[Positive], Field(min_length=1), AfterValidator(_distinct)] = [1.]  # of height and width
    batch: Count = 8
    seconds: Positive = 1.  # for each size


class Claim(StudyPart):
    """An order of levels of one factor that a paper states, from best to worst."""

    order: Annotated[list[str], BeforeValidator(lambda text: [part.strip() for part in text.split('>')]
                                                if isinstance(text, str) else text),
                     Field(min_length=2), AfterValidator(_distinct)]
    factor: Annotated[str, BeforeValidator(str)] = ''
    where: Pattern = {}
    source: str = ''

    @property
    def text(self) -> str:
        return ' > '.join(self.order)

    def resolve(self, factors: Mapping[str, Levels], where: str) -> Claim:
        """Find the factor that the levels belong to, and check the names."""
        fitting = [name for name in factors if set(self.order) <= set(factors[name]) and self.factor in ('', name)]
        if len(fitting) != 1:
            known = {name: list(levels) for name, levels in factors.items()}
            raise StudyError(f'{where}.order: expected levels of one factor, got {self.text}. The factors are {known}; '
                             'set `factor` if two have the same levels.')
        others = {name: levels for name, levels in factors.items() if name != fitting[0]}
        check_pattern(self.where, others, f'{where}.where of {self.text}')
        return self.model_copy(update={'factor': fitting[0]})


def check_pattern(pattern: Mapping[str, list[str]], factors: Mapping[str, Iterable[str]], where: str) -> None:
    """Raise StudyError for a factor or a level that does not exist."""
    for factor, levels in pattern.items():
        if factor not in factors:
            raise StudyError(f'{where}: {unknown(factor, factors)}')
        for level in levels:
            if level not in factors[factor]:
                raise StudyError(f'{where}.{factor}: {unknown(level, factors[factor])}')


class Study(StudyPart):
    """A study as its file describes it, for one of its sizes."""

    name: Annotated[str, AfterValidator(_folder_name)]
    base: str | None = None
    options: Options = {}
    factors: Annotated[dict[str, Annotated[Levels, Field(min_length=1)]], BeforeValidator(_levels)] = {}
    seeds: Annotated[list[int], BeforeValidator(_seeds), AfterValidator(_distinct)] = Field([0], alias='factors.seed')
    exclude: Annotated[list[Pattern], AfterValidator(_distinct)] = []
    budget: Budget
    metrics: Annotated[dict[str, Literal['higher', 'lower']], BeforeValidator(_metrics), Field(min_length=1)]
    tune: Tune | None = None
    throughput: Throughput = Throughput()
    claims: Annotated[list[Claim], AfterValidator(_distinct)] = []
    description: Annotated[str, AfterValidator(str.strip)] = ''

    @model_validator(mode='before')
    @classmethod
    def _take_seeds_from_factors(cls, content: Any) -> Any:
        optional = ('exclude', 'claims')
        content = {key: value for key, value in content.items() if value is not None or key not in optional}
        factors = text_keys(content.get('factors'))
        if isinstance(factors, dict) and SEED in factors:
            content = {**content, f'factors.{SEED}': factors.pop(SEED), 'factors': factors}
        return content

    @field_validator('exclude')
    @classmethod
    def _check_exclude(cls, patterns: list[Pattern], info: ValidationInfo) -> list[Pattern]:
        if 'factors' in info.data and 'seeds' in info.data:
            factors = {**info.data['factors'], SEED: [str(seed) for seed in info.data['seeds']]}
            for number, pattern in enumerate(patterns):
                check_pattern(pattern, factors, f'exclude[{number}]')
        return patterns

    @field_validator('claims')
    @classmethod
    def _resolve_claims(cls, claims: list[Claim], info: ValidationInfo) -> list[Claim]:
        if 'factors' not in info.data:
            return claims
        return [claim.resolve(info.data['factors'], f'claims[{number}]') for number, claim in enumerate(claims)]

"""Data model of a study file, checked by pydantic."""
from __future__ import annotations

import math
import reprlib
from collections.abc import Collection, Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, AliasPath, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from mmflatten_lab.studies.options import BASE, check_options

SEED = 'seed'
MANY = 1000  # seeds, exclusions and claims
FEW = 200  # characters of a text in a message


class StudyError(ValueError):
    """A study that cannot be run as written."""


def counted(number: int, thing: str) -> str:
    return f'{number} {thing}' if number == 1 else f'{number} {thing}s'


def check_name(where: str, name: str, known: Collection[str]) -> None:
    if name not in known:
        raise StudyError(f'{where}: expected one of {shown(", ".join(known))}, got {shown(name)}. Correct or remove '
                         'it.')


def _check_pattern(where: str, pattern: Pattern, known: Mapping[str, Collection[str]]) -> None:
    for factor, names in pattern.items():
        check_name(where, factor, known)
        for name in names:
            check_name(f'{where}: {factor}', name, known[factor])


def shown(value: Any) -> str:
    """Format a value for a message. Long and deeply nested ones are shortened."""
    if isinstance(value, str):
        return value if len(value) <= FEW else f'{value[:FEW]}...'
    return reprlib.repr(value)


def text_keys(value: Any) -> Any:
    """Convert the keys of a mapping to text. An empty value in YAML is an empty mapping."""
    if value is None:
        return {}
    return {str(key): item for key, item in value.items()} if isinstance(value, dict) else value


def _distinct(values: list) -> list:
    seen: set[str] = set()
    for value in values:
        if repr(value) in seen:
            raise ValueError(f'expected distinct values, got {shown(values)}. Keep one {shown(value)}.')
        seen.add(repr(value))
    return values


def _levels(factors: Any) -> Any:
    """Write out the factors that are lists: attention classes, bases, or values of a field of the config."""
    factors = text_keys(factors)
    if not isinstance(factors, dict):
        return factors
    for factor, values in factors.items():
        if isinstance(values, list) and (factor in ('attention', BASE) or '.' in factor):
            if len(set(map(str, values))) < len(values):
                raise ValueError(f'{factor}: expected distinct levels, got {shown(values)}. Remove the repeated one.')
            factors[factor] = {str(value): {factor: value} for value in values}
            if factor == 'attention':
                factors[factor] = {name: {'model.backbone.linear_attention': {'_delete_': True, 'type': name}}
                                   for name in values}
    return {factor: text_keys(levels) for factor, levels in factors.items() if factor != SEED}


def _metrics(value: Any) -> Any:
    """Read a list of metrics as metrics where higher is better."""
    if isinstance(value, list) and all(isinstance(name, str) for name in value):
        return dict.fromkeys(_distinct(value), 'higher')
    return text_keys(value)


def _pattern(value: Any) -> Any:
    """Read `{task: detection, attention: [hydra, sima]}` with a list of levels for every factor."""
    value = text_keys(value)
    return {factor: [str(level) for level in (levels if isinstance(levels, (list, tuple)) else [levels])]
            for factor, levels in value.items()} if isinstance(value, dict) else value


def _seed_list(value: Any) -> Any:
    """Read a number of seeds as the seeds from 0."""
    if type(value) is int and value > MANY:
        raise ValueError(f'expected at most {MANY} seeds, got {value}. Lower it.')
    return list(range(value)) if type(value) is int else value


def _split_order(value: Any) -> Any:
    return [step.strip() for step in value.split('>')] if isinstance(value, str) else value


Count = Annotated[int, Field(gt=0, le=10**9)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Seeds = Annotated[list[Annotated[int, Field(ge=0, lt=2**32)]], BeforeValidator(_seed_list),
                  Field(min_length=1, max_length=MANY), AfterValidator(_distinct)]
Options = Annotated[dict[str, Any], BeforeValidator(text_keys), AfterValidator(check_options)]
Pattern = Annotated[dict[str, list[str]], BeforeValidator(_pattern)]
Levels = dict[str, Options]  # name of a level -> fields of the config that it sets; `base` is a config


class StudyPart(BaseModel):
    """A mapping in a study file. Unknown fields are errors; empty ones have their default."""

    model_config = ConfigDict(frozen=True, extra='forbid', strict=True)

    @model_validator(mode='before')
    @classmethod
    def _drop_empty_fields(cls, content: Any) -> Any:
        content = text_keys(content)
        if not isinstance(content, dict):
            return content
        return {key: value for key, value in content.items() if value is not None}


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
                raise ValueError(f'{path}: expected [low, high], got [{low}, {high}]. Sort them; numbers that are not '
                                 'above zero need log: false.')
        return self


class Override(StudyPart):
    """Fields of the config for some cells, which override those of their levels."""

    where: Pattern
    options: Options


class Claim(StudyPart):
    """An order of levels of one factor that a paper states, from best to worst."""

    order: Annotated[list[str], BeforeValidator(_split_order), Field(min_length=2), AfterValidator(_distinct)]
    factor: str = ''
    where: Pattern = {}
    source: str = ''

    @property
    def text(self) -> str:
        return ' > '.join(self.order)


class Study(StudyPart):
    """A study as its file describes it, for one of its sizes.

    Attributes:
        anchors: runs outside the grid that show what a table is worth, such as logistic regression: name -> fields of
            the config. Where the reference, the first level of the first factor, is below all, nothing is judged.
        margin: metric -> difference that does not matter, for tests of equivalence.
        looks: numbers of seeds after which claims are judged. Further seeds run for undecided claims alone.
        spread: standard deviation of the metric over seeds, from a pilot; it gives the detectable difference.
    """

    name: Annotated[str, Field(pattern=r'^[^/.\x00-\x1f][^/\x00-\x1f]*$', max_length=100)]  # of a folder
    base: str | None = None
    options: Options = {}
    factors: Annotated[dict[str, Annotated[Levels, Field(min_length=1)]], BeforeValidator(_levels)] = {}
    seeds: Seeds = Field([0], validation_alias=AliasPath('factors', SEED))
    exclude: Annotated[list[Pattern], Field(max_length=MANY), AfterValidator(_distinct)] = []
    overrides: Annotated[list[Override], Field(max_length=MANY), AfterValidator(_distinct)] = []
    budget: Budget
    metrics: Annotated[dict[str, Literal['higher', 'lower']], BeforeValidator(_metrics), Field(min_length=1)]
    tune: Tune | None = None
    anchors: Annotated[Levels, Field(max_length=MANY)] = {}
    margin: dict[str, Positive] = {}
    looks: list[Count] = []
    spread: Positive | None = None
    claims: Annotated[list[Claim], Field(max_length=MANY), AfterValidator(_distinct)] = []
    description: Annotated[str, AfterValidator(str.strip)] = ''

    def factor_of(self, claim: Claim) -> str:
        """Factor whose levels a claim orders."""
        fitting = [name for name, levels in self.factors.items()
                   if set(claim.order) <= set(levels) and claim.factor in ('', name)]
        if len(fitting) != 1:
            raise StudyError(f'claims: expected levels of one factor, got {claim.text}. Set `factor` if two factors '
                             'have these levels.')
        return fitting[0]

    @model_validator(mode='after')
    def _check_looks(self) -> Study:
        if self.seed_steps != sorted(set(self.seed_steps)) or self.seed_steps[-1] != len(self.seeds):
            raise StudyError(f'looks: expected increasing numbers of seeds up to all {len(self.seeds)}, got '
                             f'{self.looks}. Correct them.')
        for metric in self.margin:
            check_name('margin', metric, self.metrics)
        return self

    @model_validator(mode='after')
    def _check_patterns(self) -> Study:
        for where in self.exclude:
            _check_pattern('exclude', where, self.levels)
        for override in self.overrides:
            _check_pattern('overrides', override.where, self.factors)
        for claim in self.claims:
            others = {name: known for name, known in self.factors.items() if name != self.factor_of(claim)}
            _check_pattern(f'claims: where of {claim.text}', claim.where, others)
        return self

    @property
    def levels(self) -> dict[str, list[str]]:
        """Names of the levels of every factor, seeds included."""
        return {**{name: list(levels) for name, levels in self.factors.items()}, SEED: list(map(str, self.seeds))}

    @property
    def seed_steps(self) -> list[int]:
        """Numbers of seeds after which claims are judged."""
        return self.looks or [len(self.seeds)]

    def keep(self, only: Mapping[str, Any]) -> Study:
        """Keep some levels of factors, and of claims, exclusions and looks what these levels leave of them.

        Raises:
            StudyError: a factor or level is not in the study.
        """
        kept = _pattern(only)
        _check_pattern('--only', kept, self.levels)
        if not all(kept.values()):
            raise StudyError(f'--only: expected a level for each factor, got {shown(only)}. Name one.')
        kept = {**self.levels, **kept}

        def narrow(where: Pattern) -> Pattern:
            return {factor: [level for level in levels if level in kept[factor]] for factor, levels in where.items()}

        claims = [claim.model_copy(update={'where': narrow(claim.where)}) for claim in self.claims
                  if set(claim.order) <= set(kept[self.factor_of(claim)])]
        seeds = [seed for seed in self.seeds if str(seed) in kept[SEED]]
        return self.model_copy(update={
            'factors': {factor: {level: options for level, options in levels.items() if level in kept[factor]}
                        for factor, levels in self.factors.items()},
            'seeds': seeds,
            'looks': sorted({min(number, len(seeds)) for number in self.looks}),
            'exclude': [where for where in map(narrow, self.exclude) if all(where.values())],
            'overrides': [override.model_copy(update={'where': narrow(override.where)}) for override in self.overrides],
            'claims': [claim for claim in claims if all(claim.where.values())]})

    def sign(self, metric: str) -> int:
        """1 if a higher metric is better, -1 if a lower one is."""
        return 1 if self.metrics[metric] == 'higher' else -1

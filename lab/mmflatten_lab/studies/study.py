"""Data model of a study file, checked by pydantic."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    AliasPath,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationInfo,
    field_validator,
    model_validator,
)

from mmflatten_lab.studies.controls import CONTROLS, add_controls
from mmflatten_lab.studies.study_fields import (
    MANY,
    SEED,
    Count,
    Levels,
    Options,
    Pattern,
    Positive,
    Reason,
    Seeds,
    StudyError,
    check_name,
    check_pattern,
    distinct,
    read_levels,
    read_metrics,
    split_order,
    text_keys,
)


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
    """Length of each run. Configs use `epochs` or `iterations`, depending on their training
    loop.
    """

    epochs: Count | None = None
    iterations: Count | None = None

    @model_validator(mode='after')
    def _check_length(self) -> Budget:
        if self.epochs is self.iterations is None:
            raise ValueError('expected the length of a run, got none. Set epochs or iterations.')
        return self


class Override(StudyPart):
    """Fields of the config for some cells or seeds, which override those of their levels."""

    where: Pattern
    options: Options


class Reference(StudyPart):
    """Cells whose first seeds end before all other runs start.

    Attributes:
        where: levels of the cells, such as `{attention: softmax}`.
        metric: of the test, whose mean over seeds must be known.
        minus: another metric of the test, which is subtracted from it; '' for none.
        margin: largest half of the 95 % interval of the mean over all planned seeds of a cell, in
            units of the metric.
        seeds: number of seeds that run first, from which the interval is foretold.
    """

    where: Annotated[Pattern, Field(min_length=1)]
    metric: Annotated[str, Field(min_length=1)]
    minus: str = ''
    margin: Positive
    seeds: Annotated[int, Field(ge=2, le=MANY)] = 3


class Claim(StudyPart):
    """Order of levels of one factor that a paper states, from best to worst."""

    order: Annotated[
        list[str], BeforeValidator(split_order), Field(min_length=2), AfterValidator(distinct)
    ]
    factor: str = ''
    where: Pattern = {}
    source: str = ''

    @property
    def text(self) -> str:
        return ' > '.join(self.order)


class Study(StudyPart):
    """Content of a study file for one of its sizes.

    Attributes:
        controls: levels of the first factor without attention, or a text that says why the study
            has none.
        baselines: name -> config fields of a run outside the grid, such as logistic regression.
            Nothing is judged if the reference, the first level of the first factor, is below all of
            them.
        margin: metric -> difference that does not matter, for tests of equivalence.
        interim: numbers of seeds after which claims are judged. Further seeds run only for
            undecided claims.
        reference: cells whose first seeds must repeat before the others run.
        std: standard deviation of the metric over seeds, from a pilot. It determines the detectable
            difference.
    """

    # of a folder
    name: Annotated[str, Field(pattern=r'^[^/.\x00-\x1f][^/\x00-\x1f]*$', max_length=100)]
    base: str | None = None
    options: Options = {}
    controls: (
        Annotated[list[Literal['none', 'mean']], Field(min_length=1), AfterValidator(distinct)]
        | Reason
    ) = list(CONTROLS)
    factors: Annotated[
        dict[str, Annotated[Levels, Field(min_length=1)]], BeforeValidator(read_levels)
    ] = {}
    seeds: Seeds = Field([0], validation_alias=AliasPath('factors', SEED))
    exclude: Annotated[list[Pattern], Field(max_length=MANY), AfterValidator(distinct)] = []
    overrides: Annotated[list[Override], Field(max_length=MANY), AfterValidator(distinct)] = []
    budget: Budget
    metrics: Annotated[
        dict[str, Literal['higher', 'lower']], BeforeValidator(read_metrics), Field(min_length=1)
    ]
    baselines: Annotated[Levels, Field(max_length=MANY)] = {}
    margin: dict[str, Positive] = {}
    interim: list[Count] = []
    reference: Reference | None = None
    std: Positive | None = None
    claims: Annotated[list[Claim], Field(max_length=MANY), AfterValidator(distinct)] = []
    description: Annotated[str, AfterValidator(str.strip)] = ''

    @field_validator('factors')
    @classmethod
    def _add_controls(cls, factors: dict[str, Levels], info: ValidationInfo) -> dict[str, Levels]:
        controls = info.data.get('controls')
        if not factors or not isinstance(controls, list):
            return factors
        first = next(iter(factors))
        return {**factors, first: add_controls(factors[first], controls)}

    def is_control(self, levels: Mapping[str, str]) -> bool:
        """Return True for the levels of a run without attention."""
        return isinstance(self.controls, list) and next(iter(levels.values()), '') in self.controls

    def factor_of(self, claim: Claim) -> str:
        """Factor whose levels a claim orders."""
        fitting = []
        for name, levels in self.factors.items():
            if set(claim.order) <= set(levels) and claim.factor in ('', name):
                fitting.append(name)
        if len(fitting) != 1:
            raise StudyError(
                f'claims: expected levels of one factor, got {claim.text}. Set `factor` if two'
                ' factors have these levels.'
            )
        return fitting[0]

    @model_validator(mode='after')
    def _check_interim(self) -> Study:
        increasing = sorted(set(self.seed_counts))
        if self.seed_counts != increasing or increasing[-1] != len(self.seeds):
            raise StudyError(
                f'interim: expected increasing numbers of seeds up to all {len(self.seeds)}, got '
                f'{self.interim}. Correct them.'
            )
        for metric in self.margin:
            check_name('margin', metric, self.metrics)
        return self

    @model_validator(mode='after')
    def _check_patterns(self) -> Study:
        for where in self.exclude:
            check_pattern('exclude', where, self.levels)
        if self.reference is not None:
            check_pattern('reference.where', self.reference.where, self.factors)
        for override in self.overrides:
            # A part of a study that has fewer seeds keeps the overrides of the others.
            where = {name: kept for name, kept in override.where.items() if name != SEED}
            check_pattern('overrides', where, self.factors)
        for claim in self.claims:
            others = {}
            for name, levels in self.factors.items():
                if name != self.factor_of(claim):
                    others[name] = levels
            check_pattern(f'claims: where of {claim.text}', claim.where, others)
        return self

    @property
    def levels(self) -> dict[str, list[str]]:
        """Names of the levels of every factor, seeds included."""
        names = {factor: list(levels) for factor, levels in self.factors.items()}
        names[SEED] = list(map(str, self.seeds))
        return names

    @property
    def seed_counts(self) -> list[int]:
        """Numbers of seeds after which claims are judged."""
        return self.interim or [len(self.seeds)]

    def sign(self, metric: str) -> int:
        """1 if a higher metric is better, -1 if a lower one is."""
        return 1 if self.metrics[metric] == 'higher' else -1

"""What a study is: factors with their levels, a budget, metrics, and the claims it is to judge."""
from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

SEED = 'seed'
BASE = 'base'
FULL = 'full'


class StudyError(ValueError):
    """A study that cannot be run as it is written."""


def counted(number: int, thing: str) -> str:
    return f'{number} {thing}' if number == 1 else f'{number} {thing}s'


@dataclass(frozen=True)
class Level:
    """One setting of a factor: a name and the fields of the config it stands for; `base` among them is a config."""

    name: str
    options: dict[str, Any]


@dataclass(frozen=True)
class Budget:
    """What a run may use. A config takes the length that its loop counts, `epochs` or `iterations`."""

    epochs: int | None = None
    iterations: int | None = None
    seconds: float | None = None  # of training, after which a run is tested as it is
    total_hours: float = math.inf  # after which no further run begins


@dataclass(frozen=True)
class Tune:
    """A search over fields of the config: `trials` values between low and high for each cell of the grid."""

    ranges: dict[str, tuple[float, float]]
    trials: int
    log: bool = True


@dataclass(frozen=True)
class Throughput:
    """How the speed of each model is measured, with random weights."""

    scales: tuple[float, ...] = (1.,)  # of the image's height and width
    batch: int = 8
    seconds: float = 1.  # for each size


@dataclass(frozen=True)
class Claim:
    """An order of levels of one factor that a paper states: `order` from best to worst."""

    text: str
    factor: str
    order: tuple[str, ...]
    where: dict[str, tuple[str, ...]]
    source: str


@dataclass(frozen=True)
class Study:
    """A study as its file describes it, for one of its sizes."""

    name: str
    base: str | None
    options: dict[str, Any]
    factors: dict[str, tuple[Level, ...]]  # without the seed
    seeds: tuple[int, ...]
    exclude: tuple[dict[str, tuple[str, ...]], ...]
    budget: Budget
    metrics: dict[str, str]  # name of a metric -> higher or lower, whichever is better
    tune: Tune | None = None
    throughput: Throughput = Throughput()
    claims: tuple[Claim, ...] = ()
    description: str = field(default='', compare=False)

"""Result of reading user data: data set arguments, summary and problems."""
from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mmflatten.checkpoints.rules import shorten
from mmflatten.tasks import Task, tasks


class OwnDataError(ValueError):
    """Error of unusable data or options; the message names the field or each problem."""


@dataclass(frozen=True)
class Problem:
    """A problem in the data.

    Attributes:
        name: short description.
        where: affected files, annotations or classes.
        fix: advice.
        stops: True for an error, False for a warning.
    """

    name: str
    where: Collection[str]
    fix: str
    stops: bool = True

    def __str__(self) -> str:
        return f'{self.name} ({len(self.where)}): {shorten(self.where, 3)}; {self.fix}'


@dataclass
class OwnData:
    """Data of a task, ready for a config.

    Attributes:
        dataset: type of the data sets.
        train: arguments of the training data set except `data_root`, `metainfo` and `pipeline`, with absolute paths.
        val: the same for validation.
        counts: number of images or pairs for training and validation.
        classes: names in the order of the labels; empty for stereo.
        facts: summary of the data, in lines.
        problems: errors and warnings.
        lists: contents of the files to write.
        evaluator: arguments of the metric.
    """

    dataset: str
    train: dict[str, Any]
    val: dict[str, Any]
    counts: tuple[int, int]
    classes: tuple[str, ...] = ()
    facts: list[str] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    lists: dict[Path, str] = field(default_factory=dict)
    evaluator: dict[str, Any] = field(default_factory=dict)

    def require_usable(self) -> None:
        """Raise OwnDataError if there are errors."""
        stopping = [f'{problem.name} ({len(problem.where)})' for problem in self.problems if problem.stops]
        if stopping:
            raise OwnDataError(f'the data has errors, so nothing was written: {", ".join(stopping)}')


def problems_of(places: dict[str, list[str]], kinds: dict[str, tuple[bool, str]]) -> list[Problem]:
    """Create problems from the places of each kind and a table of (is an error, fix)."""
    return [Problem(name, places[name], fix, stops) for name, (stops, fix) in kinds.items() if places.get(name)]


@dataclass
class Request:
    """Options of `mmflatten init`; see its help."""

    task: str
    images: Sequence[Path]
    base: str
    out: Path
    ann: Sequence[Path] | None = None
    classes: Sequence[str] | None = None
    val_share: float = 0.2
    batch: int | None = None
    checkpoint: Path | None = None
    force: bool = False

    @property
    def spec(self) -> Task:
        """The task named by its abbreviation."""
        return next(task for task in tasks().values() if task.abbreviation == self.task)

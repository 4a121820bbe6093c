"""What is found in a user's data, and what is wrong with it."""
from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mmflatten.checkpoints.rules import shorten


class OwnDataError(ValueError):
    """Data that cannot be used as they are; the message names the field or each problem."""


@dataclass(frozen=True)
class Problem:
    """A mistake in the data.

    Attributes:
        name: what is wrong, in a few words.
        where: the files, annotations or classes concerned.
        fix: what to do.
        stops: whether nothing is written because of it.
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
        dataset: the type of the data sets.
        train: arguments of the training data set beside `data_root`, `metainfo` and `pipeline`. Places are absolute
            paths.
        val: the same for validation.
        counts: images (or pairs) for training and for validation.
        classes: names in the order of the labels; empty for stereo.
        facts: lines that say what was found.
        problems: what is wrong.
        lists: files to write, with their text.
        evaluator: what the metric must be told.
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
        """Raise OwnDataError where a problem stops."""
        stopping = [f'{problem.name} ({len(problem.where)})' for problem in self.problems if problem.stops]
        if stopping:
            raise OwnDataError(f'the data have to be corrected first, and nothing is written: {", ".join(stopping)}')


def problems_of(places: dict[str, list[str]], kinds: dict[str, tuple[bool, str]]) -> list[Problem]:
    """Problems from the places where each kind was met; a kind is whether it stops, and its fix."""
    return [Problem(name, places[name], fix, stops) for name, (stops, fix) in kinds.items() if places.get(name)]

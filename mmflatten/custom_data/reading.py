"""User data as read for `mmflatten init`: options, data set arguments, summary and problems."""

import os
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mmflatten.tasks import Task, tasks
from mmflatten.text import shorten
from mmflatten.untrusted.files import read_text

MAX_CLASSES = 100_000
MAX_NAME = 1000  # characters of a class name
NAMES_FILE = 'classes.txt'  # class names, one per line, beside the labels


class DataError(ValueError):
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
class CustomData:
    """Data of a task, ready for a config.

    Attributes:
        dataset: type of the data sets.
        train: arguments of the training data set except `data_root`, `metainfo` and `pipeline`,
            with absolute paths.
        val: the same for validation.
        counts: number of images or pairs for training and validation.
        classes: names in the order of the labels; empty for stereo.
        num_things: number of classes, the first ones, that are things; None if the task has no
            stuff.
        facts: summary of the data, in lines.
        problems: errors and warnings.
        lists: contents of the files to write.
        metrics: classes of metrics that score predictions on these data; the first is the default.
        score: name of the main score of the default metric.
        evaluator: arguments of the default metric; other metrics get its `ann_file`.
        masks: every object has a mask.
        mask_evaluator: arguments of the default metric for a model that predicts masks.
    """

    dataset: str
    train: dict[str, Any]
    val: dict[str, Any]
    counts: tuple[int, int]
    classes: tuple[str, ...] = ()
    num_things: int | None = None
    facts: list[str] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    lists: dict[Path, str] = field(default_factory=dict)
    metrics: tuple[str, ...] = ()
    score: str = 'auto'
    evaluator: dict[str, Any] = field(default_factory=dict)
    masks: bool = False
    mask_evaluator: dict[str, Any] = field(default_factory=dict)

    @property
    def root(self) -> str:
        """The deepest folder with all files of the data."""
        places = []
        for part in (self.train, self.val):
            places.append(part['ann_file'].parent)
            prefix = part['data_prefix']
            if isinstance(prefix, dict):
                places += prefix.values()
            else:
                places.append(prefix)
        return os.path.commonpath(places).rstrip('/')

    def require_usable(self) -> None:
        """Raise DataError if there are errors."""
        longest = max(map(len, self.classes), default=0)
        if len(self.classes) > MAX_CLASSES or longest > MAX_NAME:
            raise DataError(
                f'classes: expected at most {MAX_CLASSES}, of at most {MAX_NAME} characters each,'
                f' got {len(self.classes)} of up to {longest}. Check the labels.'
            )
        stopping = [
            f'{problem.name} ({len(problem.where)}): {shorten(problem.where, 1)}'
            for problem in self.problems
            if problem.stops
        ]
        if stopping:
            raise DataError(f'the data has errors, so nothing was written: {"; ".join(stopping)}')


@dataclass
class Request:
    """Options of `mmflatten init`; see its help.

    Attributes:
        pictures: images that have been read.
    """

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
    crowds_as_objects: bool = False
    bands: bool = False
    pictures: dict[Path, Any] = field(default_factory=dict)

    @property
    def spec(self) -> Task:
        """The task named by its abbreviation."""
        by_abbreviation = {task.abbreviation: task for task in tasks().values()}
        return by_abbreviation[self.task]

    def split_file(self, split: str, suffix: str) -> Path:
        """Return the path of the list of a split, beside the config."""
        return self.out.absolute().with_name(f'{self.out.stem}_{split}{suffix}')


def similar_names(names: Iterable[str]) -> list[Problem]:
    """Report classes whose names differ in case or blanks alone, which may be one class."""
    groups: dict[str, list[str]] = {}
    for name in names:
        groups.setdefault(' '.join(name.split()).casefold(), []).append(name)
    similar = [' and '.join(map(repr, group)) for group in groups.values() if len(group) > 1]
    if not similar:
        return []
    fix = 'they are learned as different classes; give them one name if they are one'
    return [Problem('classes that differ in case or blanks', similar, fix, stops=False)]


def problems_of(places: dict[str, list[str]], kinds: dict[str, tuple[bool, str]]) -> list[Problem]:
    """Create problems from the places of each kind and a table of (is an error, fix)."""
    problems = []
    for name, (stops, fix) in kinds.items():
        if places.get(name):
            problems.append(Problem(name=name, where=places[name], fix=fix, stops=stops))
    return problems


def listed(
    request: Request, names: Sequence[Iterable[str]], arguments: Sequence[dict[str, Any]]
) -> dict[str, Any]:
    """Return the fields of `CustomData` for data sets that read a text file with a name in each
    line.

    Args:
        names: of the training and of the validation samples.
        arguments: other arguments of the data sets, one for both or one each.
    """
    train, train_list = _list_part(request, 'train', names=names[0], arguments=arguments[0])
    val, val_list = _list_part(request, 'val', names=names[1], arguments=arguments[-1])
    return dict(
        train=train,
        val=val,
        counts=(train_list.count('\n'), val_list.count('\n')),
        lists={train['ann_file']: train_list, val['ann_file']: val_list},
    )


def _list_part(
    request: Request, split: str, names: Iterable[str], arguments: dict[str, Any]
) -> tuple[dict[str, Any], str]:
    """Return the arguments of a data set and the text of its file list."""
    lines = list(names)
    unusable = [repr(line) for line in lines if not _is_line(line)]
    if unusable:
        raise DataError(
            'file names: expected UTF-8 without line breaks or surrounding blanks, got '
            f'{shorten(unusable, 3)}. Rename the files.'
        )
    file = request.split_file(split, '.txt')
    return dict(ann_file=file, **arguments), ''.join(f'{line}\n' for line in lines)


def _is_line(name: str) -> bool:
    """Return True if a name is read back unchanged from a line of a UTF-8 file."""
    return name.encode(errors='ignore').decode().strip().splitlines() == [name]


def listed_names(folder: Path) -> list[str]:
    """Return the class names of `classes.txt` in a folder; [] if there is none."""
    file = folder / NAMES_FILE
    lines = read_text(file).splitlines() if file.is_file() else []
    return [line.strip() for line in lines if line.strip()]

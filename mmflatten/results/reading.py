"""Reader of the predictions of `mmflatten test --out NAME.pkl` and of their origin in
`NAME.json`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypedDict

from mmflatten.config import require_parts
from mmflatten.engine.datasets import read_metainfo
from mmflatten.engine.setup import load_config
from mmflatten.engine.test import origin_of
from mmflatten.results.checking import ResultsError, check_entries
from mmflatten.tasks import Task, task_of, task_of_predictions, tasks
from mmflatten.text import shorten
from mmflatten.untrusted.files import DamagedFile, problem_of
from mmflatten.untrusted.json_files import read_json
from mmflatten.untrusted.torch_file import read_torch

MAX_CLASSES = 50_000
MAX_SQUARE = 5000  # classes of a matrix of all pairs


@dataclass(frozen=True)
class Results:
    """Predictions of one test.

    Attributes:
        entries: a dictionary for each image, see `mmflatten.engine.predictions.DumpPredictions`.
        origin: `config`, `checkpoint`, `folder` (where the command ran), `metrics`, `classes`,
            `palette` and `evaluator` (list of settings), if known.
    """

    path: Path
    entries: list[dict]
    task: Task
    origin: dict[str, Any]

    def names(self, number: int, most: int = MAX_SQUARE) -> list[str]:
        """Return the class names, of which there must be `number`, or numbers if the names are
        unknown.
        """
        if number > most:
            raise ResultsError(
                f'classes: expected at most {most} classes to analyze, got {number} in {self.path}.'
            )
        names = list(self.origin.get('classes') or map(str, range(number)))
        if len(names) != number:
            raise ResultsError(
                f'classes: got {len(names)} names, but the predictions of {self.path} have {number}'
                ' classes. Pass the config of the tested model with --config.'
            )
        return names

    def file(self, name: str) -> str:
        """Return the path of a file of the test, which may be relative to the folder of its
        command.
        """
        if '://' in name or Path(name).is_file():
            return name
        return str(Path(self.origin.get('folder') or '', name))

    def setting(self, name: str, default: Any = None) -> Any:
        """Return a setting of the first metric that has it."""
        for item in self.origin.get('evaluator') or ():
            if name in item:
                return item[name]
        return default


def read_results(path: str | Path, config: str | None = None) -> Results:
    """Read predictions without running code from the file, and their origin from the JSON file of
    the same name.

    Args:
        config: config of the tested model, which replaces the origin in the JSON file.

    Raises:
        FileNotFoundError: the file does not exist.
        ResultsError: the path is a folder, the file has no predictions, the JSON file is damaged,
            or the config is of another task.
    """
    path = Path(path)
    entries = _read_entries(path)
    task = task_of_predictions(entries)
    if task is None:
        known = ', '.join(task.prediction for task in tasks().values())
        raise ResultsError(
            f'results: expected one of {known} in each entry of {path}, got '
            f'{", ".join(sorted(entries[0]))}.'
        )
    origin = read_origin(path.with_suffix('.json'))
    if config:
        cfg = load_config(config)
        require_parts(cfg, 'test_dataloader', 'test_evaluator')
        if task_of(cfg) is not task:
            raise ResultsError(
                f'--config: expected a config of {task.name}, as the predictions, got {config} of '
                f'{task_of(cfg).name}. Give the config of the tested model.'
            )
        origin.update(origin_of(cfg, read_metainfo(cfg)))
    return Results(path=path, entries=entries, task=task, origin=origin)


def _read_entries(path: Path) -> list[dict]:
    """Read and check the entries, of which there must be one or more."""
    if path.is_dir():
        raise ResultsError(
            f'results: expected the NAME.pkl of mmflatten test --out NAME.pkl, but {path} is a'
            ' folder.'
        )
    if not path.exists():
        raise FileNotFoundError(
            f'results: {path} {problem_of(path)}. Run mmflatten test CONFIG CHECKPOINT'
            f' --out {path}.'
        )
    try:
        entries, foreign = read_torch(path)
    except ValueError as error:
        raise ResultsError(
            f'results: {error} Run mmflatten test CONFIG CHECKPOINT --out NAME.pkl, or write a'
            ' pickle with protocol=2.'
        ) from error
    if foreign:
        raise ResultsError(
            f'results: {path}: expected numbers, text and tensors, got {shorten(foreign, 3)}.'
        )
    check_entries(entries, path)
    if not entries:
        raise ResultsError(f'results: {path} is empty because the test had no images.')
    return entries


def require_truth(entries: Sequence[dict], key: str) -> None:
    """Raise `ResultsError` unless every entry has the annotation `key`."""
    missing = [entry for entry in entries if key not in entry]
    if missing:
        raise ResultsError(
            f'{len(missing)} of {len(entries)} entries have no annotation {key}, first '
            f'{missing[0].get("img_path")}. Load annotations in test_pipeline and test again.'
        )


class Origin(TypedDict, total=False):
    """Fields of the JSON file beside predictions."""

    config: str | None
    checkpoint: str | None
    folder: str | None
    metrics: dict[str, Any] | None
    classes: list[str] | None
    palette: list[list[int]] | None
    evaluator: list[dict[str, Any]] | None


def read_origin(path: Path) -> dict[str, Any]:
    """Read the JSON file that `mmflatten test --out` writes. Raises ResultsError if it is
    damaged.
    """
    try:
        origin = read_json(path, Origin)
    except DamagedFile as error:
        raise ResultsError(f'{error} Test again, or remove it and use --config.') from error
    if len(origin.get('classes') or ()) > MAX_CLASSES:
        raise ResultsError(
            f'{path}: expected at most {MAX_CLASSES} classes, got {len(origin["classes"])}.'
        )
    return origin

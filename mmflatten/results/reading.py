"""The predictions that `mmflatten test --out NAME.pkl` wrote, and what `NAME.json` beside them says of their origin."""
from __future__ import annotations

import io
import json
import pickle
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from mmflatten.tasks import Task, task_of_predictions, tasks

# What rebuilds tensors and arrays; nothing else that a file names is imported or called.
_ALLOWED = {('collections', 'OrderedDict'), ('_codecs', 'encode'), ('torch._utils', '_rebuild_tensor_v2'),
            ('torch', 'Size'), ('numpy', 'ndarray'), ('numpy', 'dtype')}
_ARRAYS = ('numpy.core.multiarray', 'numpy._core.multiarray')


class ResultsError(ValueError):
    """A file that holds no predictions, or predictions without what is needed to judge them."""


@dataclass(frozen=True)
class Results:
    """Predictions of one test.

    Attributes:
        entries: a dictionary for each image, see `mmflatten.engine.predictions.DumpPredictions`.
        task: of the predictions.
        origin: `config`, `checkpoint`, `metrics`, `classes`, `palette` and `evaluator` (a list of the config's
            settings); whatever of it is known.
    """

    path: Path
    entries: list[dict]
    task: Task
    origin: dict[str, Any]

    def names(self, number: int) -> list[str]:
        """Names of this many classes; their numbers where the names are not known.

        Raises:
            ResultsError: there is another number of names.
        """
        names = list(self.origin.get('classes') or map(str, range(number)))
        if len(names) != number:
            raise ResultsError(f'classes ({len(names)} names) and the predictions of {self.path} ({number} classes) do '
                               'not fit; give the config of the tested model: --config')
        return names

    def setting(self, name: str, default: Any = None) -> Any:
        """A setting of the first metric of the evaluator that has it."""
        return next((item[name] for item in self.origin.get('evaluator') or () if name in item), default)


def read_results(path: str | Path) -> Results:
    """Read predictions; no code from the file runs.

    Raises:
        FileNotFoundError: there is no such file.
        ResultsError: it is a folder, holds something else than predictions, or none; the JSON file is damaged.
    """
    path = Path(path)
    if path.is_dir():
        raise ResultsError(f'results {path} is a folder; name the NAME.pkl that mmflatten test --out NAME.pkl wrote')
    if not path.is_file():
        raise FileNotFoundError(f'results {path} does not exist; mmflatten test CONFIG CHECKPOINT --out {path} writes '
                                'it')
    try:
        with open(path, 'rb') as file:
            entries = _Unpickler(file).load()
    except Exception as error:  # what is no pickle can fail anywhere in the reader
        raise ResultsError(f'results {path} cannot be read as the pickle that mmflatten test --out NAME.pkl writes: '
                           f'{type(error).__name__}: {error}') from error
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise ResultsError(f'results {path} holds a {type(entries).__name__} and must hold a list with a dictionary '
                           'for each image, as mmflatten test --out NAME.pkl writes it')
    if not entries:
        raise ResultsError(f'results {path} is an empty list: the test had no images')
    task = task_of_predictions(entries)
    if task is None:
        raise ResultsError(f'results {path} has entries with {", ".join(sorted(entries[0]))} and needs one of '
                           f'{", ".join(task.prediction for task in tasks().values())} in each')
    return Results(path, entries, task, _beside(path))


def require_truth(entries: Sequence[dict], key: str) -> None:
    """Raise `ResultsError` unless every entry has the truth `key`."""
    lacking = [entry for entry in entries if key not in entry]
    if lacking:
        raise ResultsError(f'{len(lacking)} of {len(entries)} entries have no truth ({key}), the first of them '
                           f'{lacking[0].get("img_path")}; load annotations in test_pipeline and test again')


def _beside(path: Path) -> dict[str, Any]:
    """What the JSON file of the same name says, if there is one."""
    beside = path.with_suffix('.json')
    if not beside.is_file():
        return {}
    fix = 'test again, or remove it and name --config'
    try:
        content = json.loads(beside.read_text(encoding='utf-8'))
    except ValueError as error:  # not JSON, or not UTF-8
        raise ResultsError(f'{beside} is not JSON ({error}); {fix}') from error
    if not isinstance(content, dict):
        raise ResultsError(f'{beside} holds a {type(content).__name__} and must hold a dictionary; {fix}')
    for name, kind in dict(config=str, checkpoint=str, classes=list, evaluator=list, metrics=dict).items():
        if not isinstance(content.get(name), (kind, type(None))):
            raise ResultsError(f'{name} ({content[name]!r}) in {beside} must be a {kind.__name__}; {fix}')
    return content


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) == ('torch.storage', '_load_from_bytes'):
            return _storage
        if (module, name) in _ALLOWED or (module in _ARRAYS and name in ('_reconstruct', 'scalar')):
            return super().find_class(module, name)
        raise pickle.UnpicklingError(f'it holds a {module}.{name}, which no prediction needs')


def _storage(content: bytes) -> Any:
    return torch.load(io.BytesIO(content), map_location='cpu', weights_only=True)

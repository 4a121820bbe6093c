"""The folder of a published model: its files, their check, and the models in the package."""
import hashlib
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypedDict

from mmengine.config import Config

from mmflatten.engine.setup import require_scope
from mmflatten.hub.config_data import HubError, config_of, from_data, pipeline_of, require_safe, require_shallow
from mmflatten.json_files import DamagedFile, read_json
from mmflatten.tasks import find_task, tasks
from mmflatten.user_files import problem_of

FACTS, CONFIG, WEIGHTS, BACKBONE, CARD = ('mmflatten.json', 'config.json', 'model.safetensors', 'backbone.safetensors',
                                          'README.md')
NEEDED = (FACTS, CONFIG, WEIGHTS)  # by a prediction
SHIPPED = Path(__file__).with_name('models')
_FILE = re.compile(r'\w[\w.-]*')  # name inside the folder
_MAX_BYTES = 2**40


@dataclass(frozen=True)
class File:
    """Facts on a file of the folder."""

    bytes: int
    sha256: str


class Facts(TypedDict, total=False):
    """Fields of `mmflatten.json`."""

    format: int
    task: str
    model: str
    classes: list[str]
    palette: list[Any] | None
    preprocessing: dict[str, Any]
    weights: dict[str, Any]
    metrics: dict[str, Any]
    training: dict[str, Any]
    environment: dict[str, str]
    files: dict[str, File]


class _Config(TypedDict, total=False):
    """Fields of `config.json` that a prediction uses, and two that must be absent."""

    default_scope: str
    model: dict[str, Any]
    data_preprocessor: Any
    test_dataloader: dict[str, Any]
    _base_: Any
    custom_imports: Any


@dataclass(frozen=True)
class Published:
    """A published model whose files have been checked."""

    folder: Path
    config: Config
    weights: Path
    facts: dict[str, Any]


def shipped() -> dict[str, Path]:
    """Return the models in the package, by name."""
    return {path.parent.name: path.parent for path in sorted(SHIPPED.glob(f'*/{FACTS}'))}


def read_published(folder: str | Path) -> Published:
    """Check a folder and read its config. Nothing in it is executed: no pickle, no Python, no import.

    Raises:
        HubError: a file is missing, leaves the folder or has another SHA-256, or the config is not accepted.
    """
    folder = Path(folder)
    if not (folder / FACTS).is_file():
        raise HubError(f'{folder}: expected a published model, got a folder without {FACTS}. `mmflatten publish` '
                       'writes one.')
    facts = _read(folder, FACTS, Facts, ('format', 'task', 'classes', 'files'))
    if facts['format'] != 1 or facts['task'] not in tasks():
        raise HubError(f'{folder / FACTS}: expected format 1 and one of the tasks {", ".join(tasks())}, got '
                       f'{facts["format"]} and {facts["task"]}. A newer mmflatten may read it.')
    for name in facts['files']:
        if not _FILE.fullmatch(name):
            raise HubError(f'{folder / FACTS}: files: expected names inside the folder, got {name[:80]!r}.')
    for name in (CONFIG, WEIGHTS):
        _require_unchanged(folder, name, facts['files'].get(name))
    data = _read(folder, CONFIG, _Config, ('default_scope', 'model', 'test_dataloader'))
    for key in ('_base_', 'custom_imports'):
        if key in data:
            raise HubError(f'{folder / CONFIG}: {key}: not accepted in a published config, got {str(data[key])[:80]}.')
    for value in data.values():
        require_shallow(value, str(folder / CONFIG))
    data = from_data(data)
    task = find_task(data['default_scope'])
    if task is None or task.name != facts['task']:
        raise HubError(f'{folder / CONFIG}: default_scope: expected the one of {facts["task"]}, got '
                       f'{data["default_scope"][:80]!r}.')
    require_scope(task.scope)
    for name, value in (('model', data['model']), ('data_preprocessor', data.get('data_preprocessor')),
                        ('test pipeline', pipeline_of(data))):
        require_safe(value, task.scope, f'{folder / CONFIG}: {name}')
    palette = from_data(facts.get('palette'))
    metainfo = dict(classes=tuple(facts['classes']), **(dict(palette=palette) if palette else {}))
    config = config_of(data, metainfo if facts['classes'] else {}, task.visualizer_type)
    return Published(folder, config, folder / WEIGHTS, facts)


def _read(folder: Path, name: str, kind: Any, required: tuple[str, ...]) -> dict[str, Any]:
    _require_inside(folder, name)
    try:
        return read_json(folder / name, kind, required)
    except DamagedFile as error:
        raise HubError(str(error)) from error


def _require_inside(folder: Path, name: str) -> None:
    """Reject links that leave the folder. The hub's cache links from `snapshots/REVISION` to `blobs`."""
    root = folder.resolve()
    root = root.parents[1] if root.parent.name == 'snapshots' else root
    path = folder / name
    if (problem := problem_of(path, _MAX_BYTES)) is not None:
        raise HubError(f'{path} {problem}. Download or publish the model again.')
    if not path.resolve().is_relative_to(root):
        raise HubError(f'{path}: expected a file of the folder, got a link to {path.resolve()}.')


def _require_unchanged(folder: Path, name: str, expected: dict[str, Any] | None) -> None:
    if expected is None or not {'bytes', 'sha256'} <= expected.keys():
        raise HubError(f'{folder / FACTS}: files: expected bytes and sha256 of {name}, got {expected}.')
    _require_inside(folder, name)
    found = facts_of(folder / name)
    if found['bytes'] != expected['bytes']:
        raise HubError(f'{folder / name}: expected {expected["bytes"]} bytes, got {found["bytes"]}. Download it again.')
    if found['sha256'] != expected['sha256']:
        raise HubError(f'{folder / name}: expected the SHA-256 {expected["sha256"][:80]}, got {found["sha256"]}. The '
                       'file was changed or damaged: download it again.')


def facts_of(path: Path) -> dict[str, Any]:
    """Return size and SHA-256 of a file."""
    with open(path, 'rb') as file:
        return dict(bytes=path.stat().st_size, sha256=hashlib.file_digest(file, 'sha256').hexdigest())

"""The folder of a published model: its files, their check, and the models in the package."""
import hashlib
import re
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypedDict

import torch
from mmengine.config import Config
from torch import nn
from torch.nn.modules.module import (
    register_module_buffer_registration_hook,
    register_module_parameter_registration_hook,
)

from mmflatten.config import build_model
from mmflatten.console import error_text, quiet_libraries
from mmflatten.engine.class_checks import wrong_heads
from mmflatten.engine.setup import require_scope
from mmflatten.files import DamagedFile, problem_of, read_json
from mmflatten.hub.allowed_classes import TYPES
from mmflatten.hub.config_data import HubError, accepted
from mmflatten.hub.image_input import checked, pipeline_of, preprocessor_of
from mmflatten.tasks import tasks

FACTS, CONFIG, WEIGHTS, CARD = 'mmflatten.json', 'config.json', 'model.safetensors', 'README.md'
FORMAT = 2
LIMITS = {FACTS: 2**24, CONFIG: 2**20}  # bytes
SHIPPED = Path(__file__).with_name('models')
_FILE = re.compile(r'\w[\w.-]{0,99}', re.ASCII)  # name inside the folder
_MAX_BYTES = 2**40
_CLASSES, _LETTERS = 100_000, 1000
_SURROGATE = re.compile('[\ud800-\udfff]')  # half a character, which no file can hold


@dataclass(frozen=True)
class File:
    """Facts on a file of the folder."""

    bytes: int
    sha256: str


class _Facts(TypedDict):
    """Fields of `mmflatten.json` that a prediction uses."""

    format: int
    task: str
    classes: list[str]
    palette: list[list[int]] | None
    files: dict[str, File]


class _Config(TypedDict):
    """Fields of `config.json`."""

    model: dict[str, Any]
    input: dict[str, Any]


@dataclass(frozen=True)
class Published:
    """A published model whose files have been checked."""

    config: Config
    weights: Path


def shipped() -> dict[str, Path]:
    """Return the models in the package, by name."""
    return {path.parent.name: path.parent for path in sorted(SHIPPED.glob(f'*/{FACTS}'))}


def read_published(folder: str | Path) -> Published:
    """Check a folder and make the config of a prediction. It names only classes of `allowed_classes.TYPES`.

    Raises:
        HubError: a file is missing, leaves the folder or has another SHA-256, or the config is not accepted.
    """
    folder = Path(folder)
    facts = read_facts(folder)
    for name in (CONFIG, WEIGHTS):
        require_inside(folder, name)
        found, expected = facts_of(folder / name), facts['files'].get(name)
        if found != expected:
            raise HubError(f'{folder / name}: expected {str(expected)[:120]} as in {FACTS}, got {found}. The file was '
                           'changed or damaged: delete it and download it again.')
    data = _read(folder, CONFIG, _Config)
    task = tasks()[facts['task']]
    require_scope(task.scope)
    numbers = checked(data['input'], f'{folder / CONFIG}: input')
    model = accepted(data['model'], task.scope, f'{folder / CONFIG}: model')
    metainfo: dict[str, Any] = dict(classes=tuple(facts['classes'])) if facts['classes'] else {}
    if metainfo and facts['palette']:
        metainfo['palette'] = [tuple(colour) for colour in facts['palette']]  # as the drawings require
    dataset = dict(type='mmengine.dataset.BaseDataset', metainfo=metainfo, pipeline=pipeline_of(numbers, task.scope))
    config = Config(dict(
        default_scope=task.scope, model={**model, 'data_preprocessor': preprocessor_of(numbers, task.scope)},
        visualizer=dict(type=task.visualizer_type), test_dataloader=dict(dataset=dataset)))
    _require_small(config, folder / CONFIG, (folder / WEIGHTS).stat().st_size)
    return Published(config, folder / WEIGHTS)


def read_facts(folder: Path) -> dict[str, Any]:
    """Read and check `mmflatten.json`. Errors are those of `read_published`."""
    if not (folder / FACTS).is_file():
        raise HubError(f'{folder}: expected a published model, got a folder without {FACTS}. `mmflatten publish` '
                       'writes one.')
    require_inside(folder, FACTS)
    facts, place = _read(folder, FACTS, _Facts), folder / FACTS
    if facts['format'] != FORMAT:
        raise HubError(f'{place}: expected format {FORMAT}, got {facts["format"]}. Publish the model again with this '
                       'version of mmflatten, or update mmflatten.')
    known = [name for name, task in tasks().items() if task.scope in TYPES]
    if facts['task'] not in known:
        raise HubError(f'{place}: expected one of the tasks {", ".join(known)}, got {facts["task"][:80]!r}.')
    if len(facts['classes']) > _CLASSES or any(len(name) > _LETTERS or _SURROGATE.search(name)
                                               for name in facts['classes']):
        raise HubError(f'{place}: classes: expected at most {_CLASSES} names of at most {_LETTERS} letters of Unicode, '
                       f'got {len(facts["classes"])} names, the longest with {max(map(len, facts["classes"]))}.')
    for colour in facts['palette'] or ():
        if len(colour) != 3 or not all(0 <= value <= 255 for value in colour):
            raise HubError(f'{place}: palette: expected three numbers from 0 to 255, got {str(colour)[:80]}.')
    for name, file in facts['files'].items():
        limit = LIMITS.get(name, _MAX_BYTES)
        if not _FILE.fullmatch(name):
            raise HubError(f'{place}: files: expected names inside the folder, got {name[:80]!r}.')
        if file.keys() != {'bytes', 'sha256'} or not 0 <= file['bytes'] <= limit:
            raise HubError(f'{place}: files: expected sha256, and up to {limit} bytes of {name}, got {str(file)[:80]}.')
    return facts


def _read(folder: Path, name: str, kind: Any) -> dict[str, Any]:
    try:
        return read_json(folder / name, kind, kind.__annotations__)
    except DamagedFile as error:
        raise HubError(str(error)) from error


def require_inside(folder: Path, name: str) -> None:
    """Raise HubError unless a name is a regular file of the folder. The hub's cache links to `../../blobs`."""
    root, path = folder.resolve(), folder / name
    if (problem := problem_of(path, _MAX_BYTES)) is not None:
        raise HubError(f'{path} {problem}. Download or publish the model again.')
    cached = root.parent.name == 'snapshots' and root.parents[1].name.startswith('models--')
    if path.resolve().parent not in (root, root.parents[1] / 'blobs' if cached else root):
        raise HubError(f'{path}: expected a file of the folder, got a link to {path.resolve()}.')
    if (size := path.stat().st_size) > LIMITS.get(name, _MAX_BYTES):
        raise HubError(f'{path}: expected at most {LIMITS[name]} bytes, got {size}.')


def _require_small(config: Config, file: Path, size: int) -> None:
    """Build the model without memory, and stop once it is larger than weights of `size` bytes can be."""
    left, mine = 2 * size + 2**22, threading.get_ident()

    def count(module: nn.Module, name: str, value: torch.Tensor | None) -> None:
        nonlocal left
        if threading.get_ident() == mine:
            left -= 1024 + (0 if value is None else value.numel())  # with the objects of Python
        if left < 0:
            raise HubError(f'larger than {WEIGHTS}')

    hooks = [register(count) for register in (register_module_parameter_registration_hook,
                                              register_module_buffer_registration_hook)]
    try:
        with quiet_libraries(), torch.device('meta'):
            model = build_model(config)
    except Exception as error:  # of several libraries, for wrong arguments
        raise HubError(f'{file}: model: cannot be built: {error_text(error)[:300]}. Check the folder, or '
                       'publish the model again.') from error
    finally:
        for hook in hooks:
            hook.remove()
    number = len(config.test_dataloader.dataset.metainfo.get('classes') or ())
    for problem in wrong_heads(model, number, FACTS, exact=True):
        raise HubError(f'{file}: {problem}')


def facts_of(path: Path) -> dict[str, Any]:
    """Return size and SHA-256 of a file."""
    with open(path, 'rb') as file:
        return dict(bytes=path.stat().st_size, sha256=hashlib.file_digest(file, 'sha256').hexdigest())

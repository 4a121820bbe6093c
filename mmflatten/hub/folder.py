"""The folder of a published model: its files, their check, and the models in the package."""

import hashlib
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

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
from mmflatten.engine.image_input import pipeline_of, preprocessor_of
from mmflatten.engine.setup import require_scope
from mmflatten.hub.config_data import accepted
from mmflatten.hub.cost import cost_check
from mmflatten.tasks import tasks
from mmflatten.untrusted.files import DamagedFile, problem_of
from mmflatten.untrusted.json_files import read_json
from mmflatten.untrusted.model_classes import TYPES
from mmflatten.untrusted.published import (
    CONFIG,
    FACTS,
    LIMITS,
    MAX_BYTES,
    WEIGHTS,
    Facts,
    FileFacts,
    HubError,
    ModelConfig,
    checked,
)

SHIPPED = Path(__file__).with_name('models')


@dataclass(frozen=True)
class Published:
    """A published model whose files have been checked."""

    config: Config
    weights: Path


def shipped() -> dict[str, Path]:
    """Return the models in the package, by name."""
    return {path.parent.name: path.parent for path in sorted(SHIPPED.glob(f'*/{FACTS}'))}


def read_published(folder: str | Path) -> Published:
    """Check a folder and make the config of a prediction. It names only classes of
    `untrusted.model_classes`.

    Raises:
        HubError: a file is missing, leaves the folder or has another SHA-256, or the config is not
            accepted.
    """
    folder = Path(folder)
    facts = read_facts(folder)
    for name in (CONFIG, WEIGHTS):
        require_inside(folder, name)
        found = facts_of(folder / name)
        expected = facts.files.get(name)
        if found != expected:
            raise HubError(
                f'{folder / name}: expected {expected or "no such file"} as in {FACTS}, got'
                f' {found}. The file was changed or damaged: delete it and download it again.'
            )
    data = checked(ModelConfig, _read(folder, CONFIG), str(folder / CONFIG))
    task = tasks()[facts.task]
    model = accepted(data.model, task.scope, f'{folder / CONFIG}: model')
    if task.offers('hub'):
        task.part('hub').require_sizes(model, f'{folder / CONFIG}: model')
    # Imports the libraries of the task, which takes longer than all checks above.
    require_scope(task.scope)
    pipeline = pipeline_of(data.input, task.scope)
    # After the image is loaded, and before a transform enlarges it.
    pipeline.insert(1, cost_check(model, data.input, task, folder / CONFIG))
    metainfo: dict[str, Any] = dict(classes=tuple(facts.classes)) if facts.classes else {}
    if metainfo and facts.palette:
        metainfo['palette'] = facts.palette
    dataset = dict(type='mmengine.dataset.BaseDataset', metainfo=metainfo, pipeline=pipeline)
    config = Config(
        dict(
            default_scope=task.scope,
            model={**model, 'data_preprocessor': preprocessor_of(data.input, task.scope)},
            visualizer=dict(type=task.visualizer_type),
            test_dataloader=dict(dataset=dataset),
        )
    )
    _require_small(config, folder / CONFIG, (folder / WEIGHTS).stat().st_size)
    return Published(config, folder / WEIGHTS)


def read_facts(folder: Path) -> Facts:
    """Read and check `mmflatten.json`. Errors are those of `read_published`."""
    if not (folder / FACTS).is_file():
        raise HubError(
            f'{folder}: expected a published model, got a folder without {FACTS}. `mmflatten'
            ' publish` writes one.'
        )
    require_inside(folder, FACTS)
    facts = checked(Facts, _read(folder, FACTS), str(folder / FACTS))
    known = [name for name, task in tasks().items() if task.scope in TYPES]
    if facts.task not in known:
        raise HubError(
            f'{folder / FACTS}: task: expected one of {", ".join(known)}, got {facts.task!r}.'
            ' Update mmflatten if the model is of a newer version.'
        )
    return facts


def _read(folder: Path, name: str) -> dict[str, Any]:
    try:
        return read_json(folder / name)
    except DamagedFile as error:
        raise HubError(str(error)) from error


def require_inside(folder: Path, name: str) -> None:
    """Raise HubError unless a name is a regular file of the folder. The hub's cache links to
    `../../blobs`.
    """
    root, path = folder.resolve(), folder / name
    problem = problem_of(path, MAX_BYTES)
    if problem is not None:
        raise HubError(f'{path} {problem}. Download or publish the model again.')
    allowed = [root]
    if root.parent.name == 'snapshots' and root.parents[1].name.startswith('models--'):
        allowed.append(root.parents[1] / 'blobs')
    if path.resolve().parent not in allowed:
        raise HubError(f'{path}: expected a file of the folder, got a link to {path.resolve()}.')
    size = path.stat().st_size
    if size > LIMITS.get(name, MAX_BYTES):
        raise HubError(f'{path}: expected at most {LIMITS[name]} bytes, got {size}.')


def _require_small(config: Config, file: Path, size: int) -> None:
    """Build the model without memory, and stop once it is larger than weights of `size` bytes can
    be.
    """
    left = 2 * size + 2**22  # of values; the file may omit buffers, such as indices
    thread = threading.get_ident()

    def count(module: nn.Module, name: str, value: torch.Tensor | None) -> None:
        nonlocal left
        # The hooks are global, and other threads may build models, too.
        if threading.get_ident() == thread:
            left -= 1024  # for the objects of Python
            left -= 0 if value is None else value.numel()
        if left < 0:
            raise HubError(f'larger than {WEIGHTS}')

    hooks = [
        register_module_parameter_registration_hook(count),
        register_module_buffer_registration_hook(count),
    ]
    try:
        with quiet_libraries(), torch.device('meta'):
            model = build_model(config)
    except Exception as error:  # of several libraries, for wrong arguments
        raise HubError(
            f'{file}: model: cannot be built: {error_text(error)[:300]}. Check the folder, or '
            'publish the model again.'
        ) from error
    finally:
        for hook in hooks:
            hook.remove()
    number = len(config.test_dataloader.dataset.metainfo.get('classes') or ())
    for problem in wrong_heads(model, number, FACTS, exact=True):
        raise HubError(f'{file}: {problem}')


def facts_of(path: Path) -> FileFacts:
    """Return size and SHA-256 of a file."""
    with open(path, 'rb') as file:
        digest = hashlib.file_digest(file, 'sha256').hexdigest()
    return FileFacts(bytes=path.stat().st_size, sha256=digest)

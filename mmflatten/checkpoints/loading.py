"""Read checkpoints without running code from them, and load weights into a model; errors name the
first keys.
"""

import hashlib
import logging
import os
import re
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from mmengine.dist import barrier, is_main_process
from mmengine.logging import HistoryBuffer, print_log
from mmengine.runner import CheckpointLoader
from mmengine.runner.checkpoint import (
    get_deprecated_model_names,
    get_external_models,
    get_torchvision_models,
    load_state_dict,
)
from torch import Tensor, nn
from torch.hub import download_url_to_file, get_dir

from mmflatten.checkpoints.convert import BACKBONE, unwrapped
from mmflatten.checkpoints.converted_files import SAFETENSORS, read_safetensors
from mmflatten.checkpoints.key_bounds import require_short_keys
from mmflatten.checkpoints.run_files import CheckpointError
from mmflatten.text import shorten
from mmflatten.untrusted.content import holds_placeholder
from mmflatten.untrusted.records import Placeholder, Record
from mmflatten.untrusted.torch_file import read_torch

_TRAINING_STATE = ('meta', 'message_hub', 'optimizer', 'param_schedulers')
# name -> address
_NAMED_MODELS = {'torchvision': get_torchvision_models, 'open-mmlab': get_external_models}


class _History(Record):
    """Values of a log in a checkpoint. MMEngine's own class would register functions that the file
    names.
    """

    @staticmethod
    def restored(arguments: tuple, state: Any) -> HistoryBuffer:
        if not isinstance(state, dict):
            raise ValueError('expected the values of a log')
        values = state.get('_log_history')
        counts = state.get('_count_history')
        if not _is_series(values) or not _is_series(counts):
            raise ValueError('expected arrays in the log of a value')
        return HistoryBuffer(values, counts, int(state.get('max_length', 1_000_000)))


def _is_series(values: Any) -> bool:
    return isinstance(values, np.ndarray) and values.ndim == 1


class _StatisticName(Placeholder):
    """Stands for `getattr`, which checkpoints of MMEngine use for the names of statistics alone."""


_KNOWN = {
    'mmengine.logging.history_buffer.HistoryBuffer': _History,
    'builtins.getattr': _StatisticName,
}


def register_reader() -> None:
    """Make MMEngine read all checkpoints with `read_checkpoint`, wherever a config names one.

    MMEngine's own readers run code from a file. Call this before a model is built or loaded; a
    second call has no effect.
    """
    schemes = list(CheckpointLoader._schemes)
    CheckpointLoader.register_scheme(prefixes=schemes, loader=load_from_mmflatten, force=True)


def load_from_mmflatten(filename: str, map_location: Any = 'cpu') -> Any:
    """Call `read_checkpoint`. MMEngine 0.10 logs the name after its tenth letter as the backend."""
    return read_checkpoint(filename, map_location)


def read_checkpoint(filename: str | Path, map_location: Any = 'cpu') -> Any:
    """Read a checkpoint. Objects of foreign classes become inert placeholders, and a warning names
    them.

    Args:
        filename: a file, or an address: `https://`, or a name after `torchvision://` or
            `open-mmlab://`. It is downloaded once. A safetensors file gives a state dict on the
            CPU.

    Raises:
        CheckpointError: the checkpoint is missing or damaged, or the address is unknown.
    """
    path = _download(str(filename)) if '://' in str(filename) else Path(filename).expanduser()
    if not os.path.lexists(path):
        raise CheckpointError(f'checkpoint {path} does not exist. Check the path.')
    try:
        is_safetensors = path.suffix == SAFETENSORS
        content, replaced = (
            (read_safetensors(path), [])
            if is_safetensors
            else read_torch(path, map_location, _KNOWN)
        )
        require_short_keys(content, path)
    except ValueError as error:
        reason = str(error).removeprefix(f'{path}: ').rstrip('.')
        raise CheckpointError(
            f'checkpoint {path} cannot be read: {reason}. Name a complete file.'
        ) from error
    if replaced:
        print_log(
            f'{path}: left out objects of foreign classes, without running their code:'
            f' {shorten(replaced, 5)}',
            logger='current',
            level=logging.WARNING,
        )
    return content


def _download(address: str) -> Path:
    scheme, _, name = address.partition('://')
    if scheme in _NAMED_MODELS:
        address = _NAMED_MODELS[scheme]().get(get_deprecated_model_names().get(name, name), address)
    if not address.startswith(('http://', 'https://')):
        raise CheckpointError(
            f'checkpoint {address}: expected a file, https://, torchvision://NAME or '
            'open-mmlab://NAME. Download the file and name it.'
        )
    # By the whole address: files of other addresses have the same name, and others load
    # `checkpoints` less carefully.
    folder = hashlib.sha256(address.encode()).hexdigest()[:16]
    path = Path(get_dir(), 'mmflatten', folder, address.partition('?')[0].rpartition('/')[2])
    for here in (is_main_process(), True):  # other machines may have another disk
        if here and not path.is_file():
            path.parent.mkdir(parents=True, exist_ok=True)
            download_url_to_file(address, str(path))
        barrier()
    return path


def load_weights(
    model: nn.Module,
    checkpoint: Any,
    filename: str,
    strict: bool = True,
    revise_keys: Sequence[tuple[str, str]] = (),
) -> None:
    """Load the content of a checkpoint: `weights_of`, then `load_named`."""
    load_named(
        model, weights_of(model, checkpoint, filename, strict, revise_keys), filename, strict
    )


def weights_of(
    model: nn.Module,
    checkpoint: Any,
    filename: str,
    strict: bool = True,
    revise_keys: Sequence[tuple[str, str]] = (),
) -> OrderedDict:
    """Return the weights in a checkpoint by the names of a model.

    Wrappers in the names (`module.`, `_orig_mod.`, `model.`) are removed where the model has none,
    which is logged.

    Args:
        strict: require every key and shape to match. Otherwise a head may differ, but a tenth of
            the numbers of the backbone must fit: MMEngine would log the mismatch and keep a random
            model.
        revise_keys: pairs of a regular expression in the names of the weights and its replacement.

    Raises:
        CheckpointError: the content has no weights, or they do not fit.
    """
    require_dict(checkpoint, filename)
    bare, expected = checkpoint.get('state_dict', checkpoint), model.state_dict()
    if not isinstance(bare, dict) or not all(isinstance(key, str) for key in bare):
        raise CheckpointError(
            f'checkpoint {filename}: expected a dict of weights with names as keys. Save the '
            'state_dict() of the model.'
        )
    weights = OrderedDict(bare)
    for pattern, replacement in revise_keys:
        weights = OrderedDict(
            (re.sub(pattern, replacement, key), value) for key, value in weights.items()
        )
    named, removed = unwrapped(weights, expected)
    if removed:
        print_log(
            f'{filename}: removed {", ".join(removed)} from the names of weights',
            logger='current',
            level=logging.WARNING,
        )
    weights = OrderedDict(named)
    weights._metadata = unwrapped(  # type: ignore[attr-defined]
        _versions(bare, filename), dict(model.named_modules())
    )[0]
    if not any(key in expected for key in weights):
        raise CheckpointError(
            f'checkpoint {filename} has no key of the model. Its first keys are'
            f' {shorten(weights, 3)} and those of the model {shorten(expected, 3)}. `mmflatten'
            ' convert` converts official checkpoints.'
        )
    if wrong := [
        key for key, value in weights.items() if key in expected and not isinstance(value, Tensor)
    ]:
        raise CheckpointError(
            f'checkpoint {filename}: expected tensors, got {type(weights[wrong[0]]).__name__} for '
            f'{shorten(wrong, 3)}. Save the state_dict() of the model.'
        )
    fits = {
        key
        for key, value in weights.items()
        if key in expected and value.shape == expected[key].shape
    }
    part = [key for key in expected if key.startswith(BACKBONE)] or [*expected]
    if not strict and 10 * sum(expected[key].numel() for key in fits & {*part}) < sum(
        expected[key].numel() for key in part
    ):
        raise CheckpointError(
            f'checkpoint {filename}: {len(fits & {*part})} of {len(part)} tensors of'
            f' {part[0].partition(".")[0]} fit by name and shape, so training would start from'
            f' random weights. {_differences(weights, expected)}. Use the config of the checkpoint,'
            ' or leave load_from out.'
        )
    if not strict and len(fits) < len(expected):
        new = [key for key in expected if key not in fits]
        print_log(
            f'{filename}: {len(fits)} of {len(expected)} tensors of the model fit; absent or of'
            f' another shape: {shorten(new, 5)}',
            logger='current',
            level=logging.WARNING,
        )
    return weights


def _versions(state_dict: dict, filename: str) -> dict[str, dict]:
    """Return what PyTorch keeps in a state dict beside the weights: the version of each module, by
    its name.
    """
    versions = getattr(state_dict, '_metadata', {})
    if not isinstance(versions, dict) or not all(
        isinstance(name, str) and isinstance(part, dict) for name, part in versions.items()
    ):
        raise CheckpointError(
            f'checkpoint {filename}: _metadata: expected a dictionary for each module, got '
            f'{type(versions).__name__}. Save the state_dict() of the model again.'
        )
    return versions


def load_named(model: nn.Module, weights: OrderedDict, filename: str, strict: bool) -> None:
    """Load weights as MMEngine does, with the resizing that parts of the model do in their hooks.

    Raises CheckpointError if `strict` and they do not all fit.
    """
    expected = model.state_dict()
    try:
        load_state_dict(model, weights, strict)
    except RuntimeError as error:
        raise CheckpointError(
            f'checkpoint {filename} does not fit the model of the config: '
            f'{_differences(weights, expected) or error}'
        ) from error


def _differences(weights: Mapping[str, Tensor], expected: Mapping[str, Tensor]) -> str:
    parts = {
        'missing': [key for key in expected if key not in weights],
        'not in the model': [key for key in weights if key not in expected],
        'of another shape': [
            f'{key} {tuple(value.shape)} instead of {tuple(expected[key].shape)}'
            for key, value in weights.items()
            if key in expected and value.shape != expected[key].shape
        ],
    }
    return '; '.join(f'{label}: {shorten(keys, 3)}' for label, keys in parts.items() if keys)


def require_dict(checkpoint: Any, filename: str) -> None:
    """Raise CheckpointError if the content of a file is not a dictionary."""
    if not isinstance(checkpoint, dict):
        raise CheckpointError(
            f'checkpoint {filename}: expected a dict of weights, got {type(checkpoint).__name__}. '
            'Save the state_dict() of the model.'
        )


def require_training_state(checkpoint: dict, filename: str) -> None:
    """Raise CheckpointError if training cannot resume from a checkpoint; warn about missing
    parts.
    """
    fix = f'To start from its weights: --cfg-options load_from={filename}'
    if 'meta' not in checkpoint or 'message_hub' not in checkpoint:
        raise CheckpointError(
            f'checkpoint {filename} cannot be resumed: it has weights only. {fix}'
        )
    if holds_placeholder([checkpoint.get(name) for name in _TRAINING_STATE]):
        raise CheckpointError(
            f'checkpoint {filename} cannot be resumed: its training state has objects of foreign '
            f'classes. {fix}'
        )
    missing = [name for name in _TRAINING_STATE if name not in checkpoint]
    if missing:
        print_log(
            f'{filename} has no {" and no ".join(missing)}: training starts with new ones',
            logger='current',
            level=logging.WARNING,
        )

"""Reading of checkpoints without running code from them, and loading of weights into a model.
Errors name the first keys.
"""

import hashlib
import logging
import os
import re
from collections import OrderedDict
from collections.abc import Collection, Mapping, Sequence
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
from mmflatten.checkpoints.input_bands import adapt_input_bands
from mmflatten.checkpoints.key_bounds import require_short_keys
from mmflatten.checkpoints.run_files import CheckpointError
from mmflatten.text import shorten
from mmflatten.untrusted.content import holds_placeholder
from mmflatten.untrusted.records import Placeholder, Record
from mmflatten.untrusted.torch_file import read_torch

_TRAINING_STATE = ('meta', 'message_hub', 'optimizer', 'param_schedulers')
_NAMED_MODELS = {  # scheme -> function that returns the address of each name
    'torchvision': get_torchvision_models,
    'open-mmlab': get_external_models,
}


def register_reader() -> None:
    """Make MMEngine read all checkpoints with `read_checkpoint`, wherever a config names one.

    MMEngine's own readers run code from a file. Call this before a model is built or loaded; a
    second call has no effect.
    """
    schemes = list(CheckpointLoader._schemes)
    CheckpointLoader.register_scheme(prefixes=schemes, loader=load_from_mmflatten, force=True)


def load_from_mmflatten(filename: str, map_location: Any = 'cpu') -> Any:
    """Call `read_checkpoint`. MMEngine 0.10 logs the end of this name as the backend."""
    return read_checkpoint(filename, map_location)


def read_checkpoint(filename: str | Path, map_location: Any = 'cpu') -> Any:
    """Read a checkpoint. Objects of foreign classes become inert placeholders, and a warning names
    them.

    Args:
        filename: a file, or an address: `https://`, or a name after `torchvision://` or
            `open-mmlab://`. It is downloaded once. The content of a safetensors file is a state
            dict on the CPU.

    Raises:
        CheckpointError: the checkpoint is missing or damaged, or the address is unknown.
    """
    path = _download(str(filename)) if '://' in str(filename) else Path(filename).expanduser()
    if not os.path.lexists(path):
        raise CheckpointError(f'checkpoint {path} does not exist. Check the path.')
    content: Any
    replaced: list[str] = []
    try:
        if path.suffix == SAFETENSORS:
            content = read_safetensors(path)
        else:
            content, replaced = read_torch(path, map_location, _STAND_INS)
        require_short_keys(content, path)
    except ValueError as error:
        reason = str(error).removeprefix(f'{path}: ').rstrip('.')
        raise CheckpointError(
            f'checkpoint {path} cannot be read: {reason}. Name a complete file.'
        ) from error
    if replaced:
        _warn(
            f'{path}: left out objects of foreign classes, without running their code:'
            f' {shorten(replaced, 5)}'
        )
    return content


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


_STAND_INS = {
    'mmengine.logging.history_buffer.HistoryBuffer': _History,
    'builtins.getattr': _StatisticName,
}


def _download(address: str) -> Path:
    scheme, _, name = address.partition('://')
    if scheme in _NAMED_MODELS:
        current_name = get_deprecated_model_names().get(name, name)
        address = _NAMED_MODELS[scheme]().get(current_name, address)
    if not address.startswith(('http://', 'https://')):
        raise CheckpointError(
            f'checkpoint {address}: expected a file, https://, torchvision://NAME or '
            'open-mmlab://NAME. Download the file and name it.'
        )
    # A folder for each address, because files of different addresses may have the same name. It is
    # not PyTorch's `checkpoints`, whose files other programs read without these checks.
    folder = hashlib.sha256(address.encode()).hexdigest()[:16]
    path = Path(get_dir(), 'mmflatten', folder, address.partition('?')[0].rpartition('/')[2])
    # The first process downloads, then those of machines that do not share its disk.
    for downloads in (is_main_process(), True):
        if downloads and not path.is_file():
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
    weights = weights_of(
        model=model,
        checkpoint=checkpoint,
        filename=filename,
        strict=strict,
        revise_keys=revise_keys,
    )
    load_named(model=model, weights=weights, filename=filename, strict=strict)


def weights_of(
    model: nn.Module,
    checkpoint: Any,
    filename: str,
    strict: bool = True,
    revise_keys: Sequence[tuple[str, str]] = (),
) -> OrderedDict:
    """Return the weights in a checkpoint by the names of a model.

    Wrappers in the names (of `torch.compile`, DataParallel, FSDP and Lightning) are removed where
    the model has none, which is logged.

    Args:
        strict: require every key and shape to match. Otherwise a head may differ, and weights for
            three bands are adapted to the bands of the model, but a tenth of the values of the
            backbone must fit, because MMEngine would log the mismatch and keep a random model.
        revise_keys: pairs of a regular expression in the names of the weights and its replacement.

    Raises:
        CheckpointError: the content has no weights, they do not fit, or are not finite.
    """
    require_dict(checkpoint, filename)
    state_dict = checkpoint.get('state_dict', checkpoint)
    expected = model.state_dict()
    if not isinstance(state_dict, dict) or not all(isinstance(key, str) for key in state_dict):
        raise CheckpointError(
            f'checkpoint {filename}: expected a dict of weights with names as keys. Save the '
            'state_dict() of the model.'
        )
    named, removed = unwrapped(_revised(state_dict, revise_keys), expected)
    if removed:
        _warn(f'{filename}: removed {", ".join(removed)} from the names of weights')
    weights = OrderedDict(named)
    # Versions of modules, by which some convert old weights as they load.
    versions, _ = unwrapped(_versions(state_dict, filename), dict(model.named_modules()))
    weights._metadata = versions  # type: ignore[attr-defined]
    _require_tensors(weights, expected, filename)
    _require_finite(weights, dict(model.named_parameters()), filename)
    if not strict:
        adapted = adapt_input_bands(weights, expected)
        if adapted:
            _warn(f'{filename}: {", ".join(adapted)} adapted from 3 bands to those of the model')
        _require_fitting_backbone(weights, expected, filename)
    return weights


def _revised(state_dict: dict, revise_keys: Sequence[tuple[str, str]]) -> dict[str, Any]:
    weights = dict(state_dict)
    for pattern, replacement in revise_keys:
        weights = {re.sub(pattern, replacement, key): value for key, value in weights.items()}
    return weights


def _versions(state_dict: dict, filename: str) -> dict[str, dict]:
    """Return the version of each module, by its name, which PyTorch stores beside the weights."""
    versions = getattr(state_dict, '_metadata', {})
    named = isinstance(versions, dict) and all(isinstance(name, str) for name in versions)
    if not named or not all(isinstance(part, dict) for part in versions.values()):
        raise CheckpointError(
            f'checkpoint {filename}: _metadata: expected a dictionary for each module, got '
            f'{type(versions).__name__}. Save the state_dict() of the model again.'
        )
    return versions


def _require_tensors(
    weights: Mapping[str, Any], expected: Mapping[str, Tensor], filename: str
) -> None:
    """Raise CheckpointError unless at least one weight is the model's, and these are tensors."""
    shared = [key for key in weights if key in expected]
    if not shared:
        entries = [key for key, value in weights.items() if isinstance(value, dict) and value]
        fix = '`mmflatten convert` converts official checkpoints.'
        if entries:
            fix = f'Save the entry with the weights, one of {shorten(entries, 5)}, as its own file.'
        raise CheckpointError(
            f'checkpoint {filename} has no key of the model. Its first keys are'
            f' {shorten(weights, 3)} and those of the model {shorten(expected, 3)}. {fix}'
        )
    wrong = [key for key in shared if not isinstance(weights[key], Tensor)]
    if wrong:
        raise CheckpointError(
            f'checkpoint {filename}: expected tensors, got {type(weights[wrong[0]]).__name__} for '
            f'{shorten(wrong, 3)}. Save the state_dict() of the model.'
        )


def _require_finite(weights: Mapping[str, Any], parameters: Collection[str], filename: str) -> None:
    """Raise CheckpointError if a parameter of the model has NaN or infinite values."""
    wrong = []
    for key, value in weights.items():
        if key in parameters and value.is_floating_point() and not value.float().isfinite().all():
            wrong.append(key)
    if wrong:
        raise CheckpointError(
            f'checkpoint {filename}: {shorten(wrong, 3)} {"have" if len(wrong) > 1 else "has"} NaN'
            ' or infinite values, from a training that diverged. Use an earlier checkpoint.'
        )


def _require_fitting_backbone(
    weights: Mapping[str, Tensor], expected: Mapping[str, Tensor], filename: str
) -> None:
    """Raise CheckpointError if training would start from a nearly random backbone, and log the
    tensors that keep their initial values.
    """
    fitting = {
        key
        for key, value in expected.items()
        if key in weights and weights[key].shape == value.shape
    }
    backbone = [key for key in expected if key.startswith(BACKBONE)] or list(expected)
    fitting_backbone = [key for key in backbone if key in fitting]
    num_values = sum(expected[key].numel() for key in backbone)
    num_fitting = sum(expected[key].numel() for key in fitting_backbone)
    if num_fitting < num_values / 10:
        raise CheckpointError(
            f'checkpoint {filename}: {len(fitting_backbone)} of {len(backbone)} tensors of'
            f' {backbone[0].partition(".")[0]} fit by name and shape, so training would start from'
            f' random weights. {_differences(weights, expected)}. Use the config of the checkpoint,'
            ' or leave load_from out.'
        )
    new = [key for key in expected if key not in fitting]
    if new:
        _warn(
            f'{filename}: {len(fitting)} of {len(expected)} tensors of the model fit; absent or of'
            f' another shape: {shorten(new, 5)}'
        )


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
    missing = [key for key in expected if key not in weights]
    unknown = []
    reshaped = []
    for key, value in weights.items():
        if key not in expected:
            unknown.append(key)
        elif value.shape != expected[key].shape:
            reshaped.append(f'{key} {tuple(value.shape)} instead of {tuple(expected[key].shape)}')
    parts = {'missing': missing, 'not in the model': unknown, 'of another shape': reshaped}
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
        _warn(f'{filename} has no {" and no ".join(missing)}: training starts with new ones')


def _warn(message: str) -> None:
    print_log(message, logger='current', level=logging.WARNING)

"""Load weights into a model; keys that do not match are errors that name the first of them."""
import logging
import re
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

from mmengine.logging import print_log
from mmengine.runner.checkpoint import load_state_dict
from torch import nn

from mmflatten.checkpoints.rules import shorten
from mmflatten.engine.checkpoints.files import CheckpointError
from mmflatten.engine.checkpoints.reading import has_placeholders, load_from_local

WITHOUT_MODULE = ((r'^module\.', ''),)  # prefix of DistributedDataParallel
_TRAINING_STATE = ('meta', 'message_hub', 'optimizer', 'param_schedulers')


def load_weights(model: nn.Module, weights: dict, strict: bool, filename: str) -> None:
    """Load weights as MMEngine does, including the resizing that parts of the model do in their hooks.

    Args:
        strict: require every key and shape to match. Otherwise a head may differ, but at least one key must match:
            MMEngine would log the mismatch and keep a random model.

    Raises:
        CheckpointError: the weights do not fit.
    """
    expected = model.state_dict()
    if not any(key in expected for key in weights):
        raise CheckpointError(
            f'checkpoint {filename} has no key of the model. Its first keys are {shorten(weights, 3)} and those of the '
            f'model {shorten(expected, 3)}. `mmflatten convert` converts official checkpoints.')
    try:
        load_state_dict(model, weights, strict)
    except RuntimeError as error:
        raise CheckpointError(f'checkpoint {filename} does not fit the model of the config: '
                              f'{_differences(weights, expected) or error}') from error


def _differences(weights: dict, expected: dict) -> str:
    parts = {
        'missing': [key for key in expected if key not in weights],
        'not in the model': [key for key in weights if key not in expected],
        'of another shape': [f'{key} {tuple(value.shape)} instead of {tuple(expected[key].shape)}'
                             for key, value in weights.items()
                             if key in expected and value.shape != expected[key].shape]}
    return '; '.join(f'{label}: {shorten(keys, 3)}' for label, keys in parts.items() if keys)


def load_all_weights(model: nn.Module, filename: str) -> None:
    """Load a checkpoint file into a model safely; all keys must match."""
    load_all_of(load_from_local(filename, 'cpu'), model, filename)


def load_all_of(checkpoint: Any, model: nn.Module, filename: str) -> None:
    """Load the content of a checkpoint file into a model; all keys must match."""
    require_dict(checkpoint, filename)
    load_weights(model, renamed(checkpoint.get('state_dict', checkpoint)), True, filename)


def require_dict(checkpoint: Any, filename: str) -> None:
    """Raise CheckpointError if the content of a file is not a dictionary."""
    if not isinstance(checkpoint, dict):
        raise CheckpointError(f'checkpoint {filename}: expected a dict of weights, got {type(checkpoint).__name__}. '
                              'Save the state_dict() of the model.')


def renamed(weights: dict, patterns: Sequence[tuple[str, str]] = WITHOUT_MODULE) -> dict:
    """Return weights with the regular expressions of `patterns` replaced in their names; module versions are kept."""
    result = OrderedDict(weights)
    for pattern, replacement in patterns:
        result = OrderedDict((re.sub(pattern, replacement, key), value) for key, value in result.items())
    result._metadata = getattr(weights, '_metadata', OrderedDict())
    return result


def require_training_state(checkpoint: dict, filename: str) -> None:
    """Raise CheckpointError if training cannot resume from a checkpoint; warn about missing parts."""
    fix = f'To start from its weights: --cfg-options load_from={filename}'
    if 'meta' not in checkpoint or 'message_hub' not in checkpoint:
        raise CheckpointError(f'checkpoint {filename} cannot be resumed: it has weights only. {fix}')
    if has_placeholders({name: checkpoint[name] for name in _TRAINING_STATE if name in checkpoint}):
        raise CheckpointError(f'checkpoint {filename} cannot be resumed: its training state has objects of foreign '
                              f'classes. {fix}')
    missing = [name for name in _TRAINING_STATE if name not in checkpoint]
    if missing:
        print_log(f'{filename} has no {" and no ".join(missing)}: training starts with new ones', logger='current',
                  level=logging.WARNING)

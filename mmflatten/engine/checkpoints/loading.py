"""Weights of a checkpoint into a model: what cannot be right is refused, with the first keys that do not fit."""
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
from mmflatten.engine.checkpoints.reading import holds_stand_ins, load_from_local

WITHOUT_MODULE = ((r'^module\.', ''),)  # what DistributedDataParallel puts before every name
# What makes a training go on as if it had not stopped.
_TRAINING_STATE = ('meta', 'message_hub', 'optimizer', 'param_schedulers')


def load_weights(model: nn.Module, weights: dict, strict: bool, filename: str) -> None:
    """Load weights as MMEngine does, which resizes what a model's parts resize.

    Args:
        strict: every key and shape must fit. Else a head may differ, but something must fit: MMEngine would load
            nothing, log it, and leave a random model.

    Raises:
        CheckpointError: they do not fit.
    """
    own = model.state_dict()
    if not any(key in own for key in weights):
        raise CheckpointError(
            f'checkpoint {filename} has no key of the model: it begins with {shorten(weights, 3)} and the model with '
            f'{shorten(own, 3)}; `mmflatten convert` converts official ones')
    try:
        load_state_dict(model, weights, strict)
    except RuntimeError as error:
        raise CheckpointError(f'checkpoint {filename} does not fit the model of the config: '
                              f'{_differences(weights, own) or error}') from error


def load_all_weights(model: nn.Module, filename: str) -> None:
    """Load a checkpoint file into a model that it must fit key by key, without running code from the file."""
    load_all_of(load_from_local(filename, 'cpu'), model, filename)


def load_all_of(checkpoint: Any, model: nn.Module, filename: str) -> None:
    """Load what was read of a checkpoint file into a model that it must fit key by key."""
    require_dict(checkpoint, filename)
    load_weights(model, renamed(checkpoint.get('state_dict', checkpoint)), True, filename)


def require_dict(checkpoint: Any, filename: str) -> None:
    """Raise CheckpointError where a file holds something else than weights by their names."""
    if not isinstance(checkpoint, dict):
        raise CheckpointError(f'checkpoint {filename} holds no dict of weights but {type(checkpoint).__name__}; save '
                              'the state_dict() of a model in the code that knows its class')


def renamed(weights: dict, patterns: Sequence[tuple[str, str]] = WITHOUT_MODULE) -> dict:
    """Weights under the names that the replacements of `patterns` give; the versions that modules noted stay."""
    result = OrderedDict(weights)
    for pattern, replacement in patterns:
        result = OrderedDict((re.sub(pattern, replacement, key), value) for key, value in result.items())
    result._metadata = getattr(weights, '_metadata', OrderedDict())
    return result


def require_training_state(checkpoint: dict, filename: str) -> None:
    """Raise CheckpointError unless a training can go on from the checkpoint; warn of what it lacks."""
    instead = f'so it cannot be resumed; to start from its weights: --cfg-options load_from={filename}'
    if 'meta' not in checkpoint or 'message_hub' not in checkpoint:
        raise CheckpointError(f'checkpoint {filename} holds weights without the state of a training, {instead}')
    if holds_stand_ins({name: checkpoint[name] for name in _TRAINING_STATE if name in checkpoint}):
        raise CheckpointError(f'checkpoint {filename} holds a training state with objects that only their own code '
                              f'could restore, {instead}')
    lacking = [name for name in _TRAINING_STATE if name not in checkpoint]
    if lacking:
        print_log(f'{filename} holds no {" and no ".join(lacking)}: these start anew', logger='current',
                  level=logging.WARNING)


def _differences(weights: dict, own: dict) -> str:
    parts = {
        'missing': [key for key in own if key not in weights],
        'not in the model': [key for key in weights if key not in own],
        'of another shape': [f'{key} {tuple(value.shape)} instead of {tuple(own[key].shape)}'
                             for key, value in weights.items() if key in own and value.shape != own[key].shape]}
    return '; '.join(f'{label}: {shorten(keys, 3)}' for label, keys in parts.items() if keys)

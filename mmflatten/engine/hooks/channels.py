"""Whether the parts of a model fit: channels that the backbone puts out, and those that neck or head take in."""
from collections.abc import Sequence
from typing import Any

from mmengine.model import BaseTTAModel, is_model_wrapper
from torch import nn

_HEADS = ('decode_head', 'bbox_head', 'head')


def bare_model(model: nn.Module) -> nn.Module:
    """The model inside the wrappers of distributed training and of test-time augmentation."""
    while is_model_wrapper(model) or isinstance(model, BaseTTAModel):
        model = model.module
    return model


def require_matching_channels(model: nn.Module) -> None:
    """Compare the `out_channels` of the backbone with the `in_channels` of what comes behind it.

    PyTorch would name a convolution and its weights, in the middle of the first step. Backbones of other libraries do
    not tell their channels and are not checked.

    Raises:
        ValueError: they disagree.
    """
    model = bare_model(model)
    backbone, neck = getattr(model, 'backbone', None), getattr(model, 'neck', None)
    given = getattr(backbone, 'out_channels', None)
    if not isinstance(given, Sequence):
        return
    name = next((name for name in _HEADS if isinstance(getattr(model, name, None), nn.Module)), None)
    if neck is not None and getattr(neck, 'in_channels', None) is not None:
        _compare('neck', neck.in_channels, given, backbone)
    # Pooling passes the channels on; other necks make their own.
    elif name is not None and (neck is None or not list(neck.parameters())):
        head = getattr(model, name)
        _compare(name, getattr(head, 'in_channels', None), _taken(given, getattr(head, 'in_index', None)), backbone)


def _taken(given: Sequence[int], index: Any) -> Sequence[int] | None:
    """The maps that a head takes; None where it asks for one that is not there, which it says itself."""
    positions = [index] if isinstance(index, int) else list(index if index is not None else range(len(given)))
    return [given[i] for i in positions] if all(-len(given) <= i < len(given) for i in positions) else None


def _compare(name: str, wanted: Any, given: Sequence[int] | None, backbone: nn.Module) -> None:
    if given is None or not isinstance(wanted, (int, Sequence)):
        return
    found = given[-1] if isinstance(wanted, int) else list(given)  # one number stands for the last map
    if (wanted if isinstance(wanted, int) else list(wanted)) != found:
        raise ValueError(f'model.{name}.in_channels ({wanted}) must be the channels of the maps that the backbone puts '
                         f'out, {found} ({type(backbone).__name__} with out_indices {tuple(backbone.out_indices)})')

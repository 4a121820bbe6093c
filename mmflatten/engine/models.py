"""The model of a run inside its wrappers, and the check of the channels of its parts."""

from collections.abc import Sequence

from mmengine.model import BaseTTAModel, is_model_wrapper
from torch import nn


def bare_model(model: nn.Module) -> nn.Module:
    """Return the model inside wrappers of distributed training and test-time augmentation."""
    while is_model_wrapper(model) or isinstance(model, BaseTTAModel):
        model = model.module
    return model


def require_matching_channels(model: nn.Module) -> None:
    """Compare `out_channels` of the backbone with `in_channels` of the neck, or of the heads.

    Otherwise PyTorch would name a convolution and its weights in the middle of the first step.
    Backbones of other libraries do not state their channels and are not checked.

    Raises:
        ValueError: the channels differ.
    """
    model = bare_model(model)
    backbone, neck = getattr(model, 'backbone', None), getattr(model, 'neck', None)
    channels = getattr(backbone, 'out_channels', None)
    if not isinstance(channels, Sequence):
        return
    # A neck without parameters pools and keeps the channels; other necks change them.
    changes_channels = neck is not None and any(True for _ in neck.parameters())
    names = ('neck',) if changes_channels else ('decode_head', 'bbox_head', 'head')
    for name in names:
        part = getattr(model, name, None)
        expected = getattr(part, 'in_channels', None)
        if isinstance(expected, int):
            index = _index_of(part, default=-1)
        elif isinstance(expected, Sequence):
            expected = list(expected)
            index = _index_of(part, default=range(len(channels)))
        else:
            continue
        try:
            actual = channels[index] if isinstance(index, int) else [channels[i] for i in index]
        except IndexError:  # the head reports an invalid in_index
            continue
        if expected != actual:
            raise ValueError(
                f'model.{name}.in_channels ({part.in_channels}) must equal the output channels of'
                f' the backbone, {actual} ({type(backbone).__name__} with out_indices'
                f' {tuple(backbone.out_indices)}).'
            )


def _index_of(part: nn.Module, default: int | Sequence[int]) -> int | Sequence[int]:
    """Return the indices of the backbone's maps that a neck or head uses."""
    index = getattr(part, 'in_index', None)
    return default if index is None else index

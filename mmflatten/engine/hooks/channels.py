"""Check that the channels of backbone, neck and head agree."""
from collections.abc import Sequence

from mmengine.model import BaseTTAModel, is_model_wrapper
from torch import nn

_HEADS = ('decode_head', 'bbox_head', 'head')


def bare_model(model: nn.Module) -> nn.Module:
    """Return the model inside wrappers of distributed training and test-time augmentation."""
    while is_model_wrapper(model) or isinstance(model, BaseTTAModel):
        model = model.module
    return model


def require_matching_channels(model: nn.Module) -> None:
    """Compare `out_channels` of the backbone with `in_channels` of the neck, or of the heads.

    Otherwise PyTorch would name a convolution and its weights in the middle of the first step. Backbones of other
    libraries do not state their channels and are not checked.

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
    for name in ('neck', ) if changes_channels else _HEADS:
        part = getattr(model, name, None)
        expected = getattr(part, 'in_channels', None)
        if not isinstance(expected, (int, Sequence)):
            continue
        index = getattr(part, 'in_index', None)
        if index is None:
            index = -1 if isinstance(expected, int) else range(len(channels))
        try:
            actual = channels[index] if isinstance(index, int) else [channels[i] for i in index]
        except IndexError:  # the head reports an invalid in_index
            continue
        if (expected if isinstance(expected, int) else list(expected)) != actual:
            raise ValueError(f'model.{name}.in_channels ({expected}) must equal the output channels of the backbone, '
                             f'{actual} ({type(backbone).__name__} with out_indices {tuple(backbone.out_indices)}).')

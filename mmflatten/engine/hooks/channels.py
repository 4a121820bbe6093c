"""Whether the parts of a model fit: channels that the backbone puts out, and those that neck or head take in."""
from collections.abc import Sequence

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
    # A neck without parameters pools and passes the channels on; other necks make their own.
    makes_own = neck is not None and any(True for _ in neck.parameters())
    for name in ('neck', ) if makes_own else _HEADS:
        part = getattr(model, name, None)
        wanted = getattr(part, 'in_channels', None)
        if not isinstance(wanted, (int, Sequence)):
            continue
        index = getattr(part, 'in_index', None)
        if index is None:
            index = -1 if isinstance(wanted, int) else range(len(given))
        try:
            found = given[index] if isinstance(index, int) else [given[i] for i in index]
        except IndexError:  # the head itself says that there is no such map
            continue
        if (wanted if isinstance(wanted, int) else list(wanted)) != found:
            raise ValueError(
                f'model.{name}.in_channels ({wanted}) must be the channels of the maps that the backbone puts out, '
                f'{found} ({type(backbone).__name__} with out_indices {tuple(backbone.out_indices)})')

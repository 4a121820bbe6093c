"""Weights of three bands for images of another number of bands, as timm adapts them."""

from collections.abc import Mapping, MutableMapping

import torch
from torch import Tensor

RGB = 3


def adapt_bands(weight_O3hw: Tensor, bands: int) -> Tensor:
    """Return the weights `(O, bands, h, w)` of a convolution for images of `bands` bands.

    The responses keep their scale: for one band, the weights of the three bands are added; for
    more, they are repeated in turn and multiplied by `3 / bands`. This is the rule of timm's
    `adapt_input_conv`.
    """
    exact = weight_O3hw.float()
    if bands == 1:
        adapted = exact.sum(dim=1, keepdim=True)
    else:
        order = torch.arange(bands, device=exact.device) % RGB
        adapted = exact[:, order] * (RGB / bands)
    return adapted.to(weight_O3hw.dtype)


def adapt_input_bands(
    weights: MutableMapping[str, Tensor], expected: Mapping[str, Tensor]
) -> list[str]:
    """Replace the weights of convolutions of three bands where a model has another number of bands;
    return their names.
    """
    adapted = []
    for name, value in expected.items():
        found = weights.get(name)
        if value.dim() != 4 or not isinstance(found, Tensor) or found.dim() != 4:
            continue
        bands = value.shape[1]
        same_rest = found.shape[0] == value.shape[0] and found.shape[2:] == value.shape[2:]
        if found.shape[1] == RGB != bands and same_rest:
            weights[name] = adapt_bands(found, bands)
            adapted.append(name)
    return adapted

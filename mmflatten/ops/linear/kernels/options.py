"""Feature maps of fused linear attention, and the options of its kernels."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch.nn.functional as F
from torch import Tensor

EPS = 1e-6
FOCUSED = 'focused'
# `relu(x) + floor` is also the activation under the focused map.
ACTIVATIONS: dict[str, Callable[[Tensor, float], Tensor]] = {
    'relu': lambda x, floor: F.relu(x) + floor,
    FOCUSED: lambda x, floor: F.relu(x) + floor,
    'elu': lambda x, floor: F.elu(x) + 1,
    'leaky_relu': lambda x, floor: F.leaky_relu(x),
}


class Options(NamedTuple):
    """Arguments of the kernels that are not tensors.

    Attributes:
        feature_map: a name in `ACTIVATIONS`.
        power: power of the focused map.
        floor: added to `relu(x)`.
        min_denominator: lower bound of the summed denominator, instead of `EPS`; 0 for none.
    """

    feature_map: str
    power: int
    floor: float
    min_denominator: float

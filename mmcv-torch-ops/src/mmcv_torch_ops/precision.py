"""The precision that operators compute in."""

from __future__ import annotations

import torch
from torch import Tensor


def single(*tensors: Tensor) -> list[Tensor]:
    """Return the tensors in one floating type, at least float32: half types are computed in single
    precision.
    """
    dtype = torch.float32
    for tensor in tensors:
        dtype = torch.promote_types(dtype, tensor.dtype)
    return [tensor.to(dtype) for tensor in tensors]

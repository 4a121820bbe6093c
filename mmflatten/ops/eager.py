"""Eager execution, in which an operator may be replaced by a faster one of the same values."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.autograd import forward_ad
from torch.utils._python_dispatch import is_in_torch_dispatch_mode


def is_eager(x: Tensor) -> bool:
    """Return True unless the call is compiled, traced, seen by a dispatch mode such as a FLOP
    counter, or `x` has a derivative in forward mode. These need PyTorch's own operator.
    """
    if torch.compiler.is_compiling() or torch.jit.is_tracing() or is_in_torch_dispatch_mode():
        return False
    return forward_ad.unpack_dual(x).tangent is None

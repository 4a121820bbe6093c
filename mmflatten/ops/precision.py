"""Full precision inside autocast regions."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator

import torch
from torch import Tensor

_HALF_TYPES = (torch.float16, torch.bfloat16)


def upcast(*tensors: Tensor) -> tuple[Tensor, ...]:
    """Cast half-precision tensors to float32. Float32 and float64 tensors are returned as they
    are.
    """
    return tuple(x.float() if x.dtype in _HALF_TYPES else x for x in tensors)


def widen(x: Tensor) -> Tensor:
    """Cast float16 to float32, before products that exceed its range. Other types, also bfloat16,
    are unchanged.
    """
    return x.float() if x.dtype == torch.float16 else x


def is_autocast_on(device: str) -> bool:
    """Return True if autocast is enabled on a type of device. Some types, such as 'meta', have no
    autocast.
    """
    # The Dynamo of PyTorch 2.11 cannot trace is_autocast_available.
    available = torch.compiler.is_compiling() or torch.amp.is_autocast_available(device)
    return available and torch.is_autocast_enabled(device)


@contextlib.contextmanager
def no_autocast(x: Tensor) -> Iterator[None]:
    """Disable autocast on the device of `x`, because sums over thousands of tokens overflow
    float16.

    If autocast is already disabled, no region is entered, because `torch.export` cannot save every
    such region.
    """
    if is_autocast_on(x.device.type):
        with torch.autocast(x.device.type, enabled=False):
            yield
    else:
        yield


def full_precision(operator: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Decorate an operator `f(q, k, v, **options)` to compute half-precision inputs in float32,
    also under autocast.

    The result has the type of `v`.
    """

    @functools.wraps(operator)
    def run(q: Tensor, k: Tensor, v: Tensor, **options) -> Tensor:
        wide = {}
        for name, option in options.items():
            wide[name] = upcast(option)[0] if isinstance(option, Tensor) else option
        with no_autocast(v):
            return operator(*upcast(q, k, v), **wide).to(v.dtype)

    return run

"""Choice between the fused kernels and PyTorch's operators."""

from __future__ import annotations

import logging
import os
import shutil
from functools import cache
from importlib.metadata import PackageNotFoundError, version

import torch
from torch import Tensor

from mmflatten.ops.linear.kernels.tile_table import is_cheaper
from mmflatten.ops.sizes import is_exporting

OLDEST_TRITON = (3, 6)
WIDEST_HEAD = 64
# of the focused map; higher powers, even of unit vectors, leave the range of float32
HIGHEST_POWER = 8
# with float32, heads of 48 and 64 channels spill registers on 8.0
TYPES = (torch.float16, torch.bfloat16)

_enabled = True


# lower case like torch.set_grad_enabled, because it is used like a function
class set_kernels_enabled:
    """Turn the fused kernels on or off, until the next call or, as a context manager, for a block
    of code.

    They are on by default. The setting holds for all threads of the process. A model compiled by
    `torch.compile` is compiled again when it changes.
    """

    def __init__(self, enabled: bool) -> None:
        global _enabled
        self._previous, _enabled = _enabled, enabled

    def __enter__(self) -> None:
        pass

    def __exit__(self, *error: object) -> None:
        global _enabled
        _enabled = self._previous


def kernels_enabled() -> bool:
    """Return True if the fused kernels are turned on."""
    return _enabled


def pick_kernel(*tensors: Tensor, width: int, feature_map: str, power: float = 1) -> bool:
    """Return True if the fused kernels compute these tensors: on a CUDA GPU, with Triton, not in an
    exported graph.

    Their shape must be one for which `is_cheaper` holds.

    Args:
        tensors: the operator's inputs, all of one type and on one device; their last axes are
            tokens and channels.
        width: channels of a head.
        feature_map: of queries and keys.
        power: power of the focused map.
    """
    first = tensors[0]
    if (
        not first.is_cuda
        or is_exporting()
        or width > WIDEST_HEAD
        or power not in range(1, HIGHEST_POWER + 1)
    ):
        return False
    same = all(
        x.dtype == first.dtype and x.dtype in TYPES and x.device == first.device for x in tensors
    )
    return (
        same
        and all(x.numel() and is_cheaper(x.shape[-2], width, feature_map) for x in tensors)
        and kernels_enabled()
        and _available(first.device.index or 0)
    )


def _available(device: int) -> bool:
    return has_triton() and torch.cuda.get_device_capability(device) >= (8, 0) and _has_c_compiler()


# Constant in a compiled graph. `torch.compiler.assume_constant_result` would do the same, but
# imports the compiler.
_available._dynamo_marked_constant = True  # type: ignore[attr-defined]


def has_triton() -> bool:
    """Return True if the installed version of Triton supports the kernels."""
    return _triton_version() >= OLDEST_TRITON


@cache
def _has_c_compiler() -> bool:
    """Return True if there is a C compiler, which Triton calls when the first kernel runs."""
    found = bool(os.environ.get('CC') or shutil.which('gcc') or shutil.which('clang'))
    if not found:
        logging.getLogger('mmflatten').warning(
            "Fused kernels: no C compiler found, which Triton requires; using PyTorch's operators."
            ' Install gcc.'
        )
    return found


@cache
def _triton_version() -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in version('triton').split('.')[:2])
    except PackageNotFoundError:
        return ()

"""Whether a fused kernel runs, or PyTorch's own operators."""
from __future__ import annotations

import logging
import os
import shutil
from functools import cache
from importlib.metadata import PackageNotFoundError, version

import torch
from torch import Tensor

from mmflatten.ops.sizes import is_exporting

SWITCH = 'MMFLATTEN_KERNELS'  # 'off' leaves everything to PyTorch
OLDEST_TRITON = (3, 6)
WIDEST_HEAD = 64
HIGHEST_POWER = 8  # of the focused map; above, even powers of unit vectors leave the range of float32
TYPES = (torch.float32, torch.float16, torch.bfloat16)


def pick_kernel(*tensors: Tensor, width: int = 1, power: float = 1) -> bool:
    """Whether a fused kernel computes these tensors: on a CUDA GPU, with Triton, and never in an exported graph.

    Args:
        tensors: the operator's inputs, all of one type and on one device.
        width: channels of a head.
        power: of the focused map.
    """
    first = tensors[0]
    if not first.is_cuda or is_exporting() or width > WIDEST_HEAD or power not in range(1, HIGHEST_POWER + 1):
        return False
    same = all(x.dtype == first.dtype and x.dtype in TYPES and x.device == first.device for x in tensors)
    return same and first.numel() > 0 and _switched_on(first.device.index or 0)


def _switched_on(device: int) -> bool:
    if (switch := os.environ.get(SWITCH, '')) not in ('', 'off'):
        raise ValueError(f"{SWITCH} ({switch!r}) must be 'off', or unset for the kernels to run")
    return (not switch and has_triton() and torch.cuda.get_device_capability(device) >= (8, 0)
            and _has_c_compiler())


# As `torch.compiler.assume_constant_result` does, which would import the compiler: a graph is compiled for one answer.
_switched_on._dynamo_marked_constant = True  # type: ignore[attr-defined]


def has_triton() -> bool:
    """Whether a Triton is installed for which the kernels were written."""
    return _triton_version() >= OLDEST_TRITON


@cache
def _has_c_compiler() -> bool:
    """Return True if Triton can build its launcher, for which it calls a C compiler when the first kernel runs."""
    found = bool(os.environ.get('CC') or shutil.which('gcc') or shutil.which('clang'))
    if not found:
        logging.getLogger('mmflatten').warning(
            "No C compiler (gcc) was found, which Triton needs for the fused kernels: PyTorch's operators are used.")
    return found


@cache
def _triton_version() -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in version('triton').split('.')[:2])
    except PackageNotFoundError:
        return ()

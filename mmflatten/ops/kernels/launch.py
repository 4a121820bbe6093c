"""Helpers of the launchers of linear attention: layouts and constants that the kernels expect."""
from __future__ import annotations

import torch
import triton
from torch import Tensor

from mmflatten.ops.kernels.closed_form import EPS, Options
from mmflatten.ops.kernels.tile_table import Tile


def run(kernel: triton.JITFunction, tile: Tile, grid: tuple[int, int], *args: object, **constants: object) -> None:
    """Launch a kernel in `grid` programs for each group of heads."""
    blocks = (*grid, tile.GROUPS)
    kernel[blocks](*args, **constants, **tile._asdict())


def constants_of(q: Tensor, options: Options) -> dict[str, object]:
    return dict(FEATURE=options.feature_map, POWER=options.power, HEADS=q.shape[1], WIDTH=q.shape[3],
                PRECISION=precision_of(q.dtype))


def precision_of(dtype: torch.dtype) -> str:
    """Precision of matrix products: TF32 represents half-precision inputs exactly; three TF32 products give float32."""
    return 'tf32x3' if dtype == torch.float32 else 'tf32'


def readable(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return tensors with contiguous channels and one layout for keys and values, copied only if necessary."""
    q = q if q.stride(-1) == 1 else q.contiguous()
    if k.stride() != v.stride() or k.stride(-1) != 1:
        k, v = k.contiguous(), v.contiguous()
    return q, k, v


def contiguous(position_hMd: Tensor | None, *others: Tensor | None) -> list[Tensor | None]:
    """Return the optional tensors contiguous in memory, the positions as `(M, h, d)`."""
    position_Mhd = None if position_hMd is None else position_hMd.transpose(0, 1)
    return [None if x is None else x.contiguous() for x in (position_Mhd, *others)]


def windows_of(weight_WM: Tensor | None) -> int:
    return 1 if weight_WM is None else weight_WM.shape[0]


def bound_of(options: Options, keys: int) -> float:
    return options.min_denominator / keys if options.min_denominator else EPS


def optional(x: Tensor | None, placeholder: Tensor) -> Tensor:
    """Return `x`, or if it is None a placeholder that the kernel does not read."""
    return placeholder if x is None else x

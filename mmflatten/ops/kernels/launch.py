"""What the launchers of linear attention share: how tensors are handed to kernels."""
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
    """Of the products: TF32 keeps more of half-precision inputs than they have; three such products make up float32."""
    return 'tf32x3' if dtype == torch.float32 else 'tf32'


def readable(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Tensors as the kernels read them: contiguous channels, one layout for keys and values; views are not copied."""
    q = q if q.stride(-1) == 1 else q.contiguous()
    if k.stride() != v.stride() or k.stride(-1) != 1:
        k, v = k.contiguous(), v.contiguous()
    return q, k, v


def contiguous(*others: Tensor | None) -> list[Tensor | None]:
    return [_positions(x) if x is not None and x.dim() == 3 else x if x is None else x.contiguous() for x in others]


def _positions(position_hMd: Tensor) -> Tensor:
    return position_hMd.transpose(0, 1).contiguous()


def bound_of(options: Options, keys: int) -> float:
    return options.min_denominator / keys if options.min_denominator else EPS


def given(x: Tensor | None, other: Tensor) -> Tensor:
    """A tensor, or one that stands in for it and is not read."""
    return other if x is None else x

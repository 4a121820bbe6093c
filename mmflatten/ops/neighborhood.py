"""Neighbourhood attention."""
from __future__ import annotations

import functools
from types import ModuleType

import torch
from torch import Tensor

from mmflatten.ops.precision import full_precision
from mmflatten.ops.sizes import is_exporting

FUSED_TYPES = (torch.float32, torch.float16, torch.bfloat16)


def nearest(length: int, number: int, dilation: int, device: torch.device | None = None) -> tuple[Tensor, Tensor]:
    """Neighbours of every position on an axis, `(length, number)`, and a mask of those that exist.

    Neighbours are `dilation` apart and centred on the position. At the ends of the axis they are shifted inwards, so
    that their number stays the same. An axis that is too short has fewer.
    """
    position = torch.arange(length, device=device)
    rest, index = position % dilation, position // dilation
    available = (length - rest + dilation - 1) // dilation
    first = torch.minimum(index - number // 2, available - number).clamp(min=0)
    steps = first[:, None] + torch.arange(number, device=device)
    exists = steps < available[:, None]
    return torch.where(exists, rest[:, None] + dilation * steps, 0), exists


def neighborhood_attention(q_BhNd: Tensor, k_BhNd: Tensor, v_BhNe: Tensor, *, hw_shape: tuple[int, int],
                           kernel_size: int = 7, dilation: int = 1, bias: Tensor | None = None) -> Tensor:
    """Softmax attention to the `k x k` nearest tokens of the map, shifted inwards at its borders.

    Cost: `2 N k^2 C` multiply-accumulates. The neighbours' keys and values are gathered, which takes `k^2` times their
    memory, unless NATTEN's kernels support the call, see `fused_library`. Source: Neighborhood Attention Transformer
    (CVPR 2023); with a dilation, Dilated NAT (2022).

    Args:
        q_BhNd: queries `(B, h, N, d)` of a map in row-major order; logits are divided by `sqrt(d)`.
        k_BhNd: keys of the same map.
        v_BhNe: their values.
        hw_shape: `(H, W)` with `H W = N`.
        kernel_size: `k`.
        dilation: distance between neighbours.
        bias: added to the logits, by head and offset in units of the dilation, `(h, 2 k - 1, 2 k - 1)`.

    Returns:
        `(B, h, N, e)` in the type of `v`.
    """
    natten = fused_library(q_BhNd, k_BhNd, v_BhNe, hw_shape, kernel_size, dilation) if bias is None else None
    if natten is None:
        return _gathered(q_BhNd, k_BhNd, v_BhNe, hw_shape=hw_shape, kernel_size=kernel_size, dilation=dilation,
                         bias=bias)
    maps_BHWhd = (x.transpose(1, 2).unflatten(1, hw_shape) for x in (q_BhNd, k_BhNd, v_BhNe))
    return natten.na2d(*maps_BHWhd, kernel_size=kernel_size, dilation=dilation).flatten(1, 2).transpose(1, 2)


def fused_library(q_BhNd: Tensor, k_BhNd: Tensor, v_BhNe: Tensor, hw_shape: tuple[int, int], kernel_size: int,
                  dilation: int) -> ModuleType | None:
    """Return NATTEN if it is installed with its CUDA kernels and they support the call, else None.

    The kernels support no bias, and require a map at least as large as the dilated neighbourhood and head widths
    divisible by 8. Written for NATTEN 0.21. Exported graphs never use it.
    """
    fits = 1 < kernel_size and kernel_size * dilation <= min(hw_shape)
    widths = q_BhNd.shape[-1] % 8 == 0 and v_BhNe.shape[-1] % 8 == 0
    types = q_BhNd.dtype == k_BhNd.dtype == v_BhNe.dtype and v_BhNe.dtype in FUSED_TYPES
    return _natten() if q_BhNd.is_cuda and not is_exporting() and fits and widths and types else None


@functools.cache
def _natten() -> ModuleType | None:
    try:
        import natten
    except ImportError:
        return None
    return natten if getattr(natten, 'HAS_LIBNATTEN', False) else None


@full_precision
def _gathered(q_BhNd: Tensor, k_BhNd: Tensor, v_BhNe: Tensor, *, hw_shape: tuple[int, int], kernel_size: int,
              dilation: int, bias: Tensor | None) -> Tensor:
    (H, W), device = hw_shape, q_BhNd.device
    (rows, rows_exist), (cols, cols_exist) = (nearest(side, kernel_size, dilation, device) for side in hw_shape)
    keys_NK = (rows[:, None, :, None] * W + cols[None, :, None]).reshape(H * W, -1)
    exists_NK = (rows_exist[:, None, :, None] & cols_exist[None, :, None]).reshape(H * W, -1)
    gathered = k_BhNd[:, :, keys_NK]
    logits_BhNK = (gathered @ (q_BhNd * q_BhNd.shape[-1] ** -.5).unsqueeze(-1)).squeeze(-1)
    if bias is not None:
        offset_rows, offset_cols = ((steps - torch.arange(side, device=device)[:, None]) // dilation + kernel_size - 1
                                    for steps, side in ((rows, H), (cols, W)))
        offset_rows, offset_cols = (x.clamp(0, 2 * kernel_size - 2) for x in (offset_rows, offset_cols))
        table = bias[:, offset_rows[:, None, :, None], offset_cols[None, :, None]]
        logits_BhNK = logits_BhNK + table.reshape(bias.shape[0], H * W, -1)
    weights_BhNK = logits_BhNK.masked_fill(~exists_NK, -torch.inf).softmax(-1)
    return (weights_BhNK.unsqueeze(-2) @ v_BhNe[:, :, keys_NK]).squeeze(-2)

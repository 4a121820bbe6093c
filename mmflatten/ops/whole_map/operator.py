"""Attentions between the tokens of a whole map.

Tokens are in row-major order of the map, whose shape is `hw_shape`, `(H, W)` with `H W = N`.
"""

from __future__ import annotations

import functools
from types import ModuleType

import torch
from torch import Tensor

from mmflatten.ops.precision import full_precision
from mmflatten.ops.sizes import is_exporting
from mmflatten.ops.softmax.operator import softmax_attention

FUSED_TYPES = (torch.float32, torch.float16, torch.bfloat16)


@full_precision
def circulant_attention(
    q_BNC: Tensor, k_BNC: Tensor, v_BNC: Tensor, *, hw_shape: tuple[int, int]
) -> Tensor:
    """Attention whose weights depend only on the offset of two tokens, one head per channel, by
    Fourier transforms.

    The scores of all offsets are the circular correlation of queries and keys,
    `a = softmax(corr(q, k) / sqrt(H W))` over the offsets. The result is the circular correlation
    of `a` and the values. Cost: `O(N log N C)`. Source: Circulant Attention (AAAI 2026).
    """
    if q_BNC.numel() == 0:
        return v_BNC.clone()  # torch.fft rejects empty tensors
    maps = [x.unflatten(1, hw_shape) for x in (q_BNC, k_BNC, v_BNC)]
    q_BHFC, k_BHFC, v_BHFC = (torch.fft.rfft2(x, dim=(1, 2), norm='ortho') for x in maps)
    scores_BHWC = torch.fft.irfft2(q_BHFC.conj() * k_BHFC, s=hw_shape, dim=(1, 2), norm='ortho')
    weights_BHWC = scores_BHWC.flatten(1, 2).softmax(dim=1).unflatten(1, hw_shape)
    weights_BHFC = torch.fft.rfft2(weights_BHWC, dim=(1, 2))
    y_BHWC = torch.fft.irfft2(weights_BHFC.conj() * v_BHFC, s=hw_shape, dim=(1, 2), norm='ortho')
    return y_BHWC.flatten(1, 2)


@full_precision
def manhattan_attention(
    q_BhNd: Tensor, k_BhNd: Tensor, v_BhNe: Tensor, *, decay_h: Tensor, hw_shape: tuple[int, int]
) -> Tensor:
    """Softmax attention along the rows, then the columns, with logits that decrease with the
    distance.

    `softmax(q k^T / sqrt(d) + ln(gamma) |distance|)` within each row of the map mixes the values,
    then the same within each column mixes the result. Cost: `N (H + W) (d + e)` per head. Source:
    RMT (Fan et al., CVPR 2024), eqs. 8 and 9.

    Args:
        decay_h: `ln(gamma)` of each head.
    """
    q_BhNd = q_BhNd * q_BhNd.shape[-1] ** -0.5
    q_BhHWd, k_BhHWd, v_BhHWe = (x.unflatten(2, hw_shape) for x in (q_BhNd, k_BhNd, v_BhNe))
    y_BhHWe = _row_attention(q_BhHWd, k_BhHWd, v_BhHWe, decay_h)
    q_BhWHd, k_BhWHd, y_BhWHe = (x.transpose(2, 3) for x in (q_BhHWd, k_BhHWd, y_BhHWe))
    return _row_attention(q_BhWHd, k_BhWHd, y_BhWHe, decay_h).transpose(2, 3).flatten(2, 3)


def _row_attention(q_BhYXd: Tensor, k_BhYXd: Tensor, v_BhYXe: Tensor, decay_h: Tensor) -> Tensor:
    column = torch.arange(q_BhYXd.shape[3], device=q_BhYXd.device)
    distance_XX = (column[:, None] - column).abs()
    logits = q_BhYXd @ k_BhYXd.transpose(-2, -1) + decay_h[:, None, None, None] * distance_XX
    return logits.softmax(-1) @ v_BhYXe


def nearest(
    length: int, number: int, dilation: int, device: torch.device | None = None
) -> tuple[Tensor, Tensor]:
    """Neighbours of every position on an axis, `(length, number)`, and a mask of those that exist.

    Neighbours are `dilation` apart and centred on the position. At the ends of the axis they are
    shifted inwards, so that their number stays the same. An axis that is too short has fewer.
    """
    position = torch.arange(length, device=device)
    # Positions of equal rest are neighbours of each other.
    rest = position % dilation
    index = position // dilation
    available = (length - rest + dilation - 1) // dilation
    first = torch.minimum(index - number // 2, available - number).clamp(min=0)
    steps = first[:, None] + torch.arange(number, device=device)
    exists = steps < available[:, None]
    return torch.where(exists, rest[:, None] + dilation * steps, 0), exists


def neighborhood_attention(
    q_BhNd: Tensor,
    k_BhNd: Tensor,
    v_BhNe: Tensor,
    *,
    hw_shape: tuple[int, int],
    kernel_size: int = 7,
    dilation: int = 1,
    bias: Tensor | None = None,
) -> Tensor:
    """Softmax attention to the `k x k` nearest tokens of the map, shifted inwards at its borders.

    Logits are divided by `sqrt(d)`. Cost: `2 N k^2 C` multiply-accumulates. The neighbours' keys
    and values are gathered, which takes `k^2` times their memory, unless NATTEN's kernels support
    the call, see `fused_library`.
    Source: Neighborhood Attention Transformer (CVPR 2023); with a dilation, Dilated NAT (2022).

    Args:
        kernel_size: `k`.
        dilation: distance between neighbours.
        bias: added to the logits, by head and offset in units of the dilation,
            `(h, 2 k - 1, 2 k - 1)`.
    """
    natten = None
    if bias is None:
        natten = fused_library(
            q_BhNd, k_BhNd, v_BhNe, hw_shape=hw_shape, kernel_size=kernel_size, dilation=dilation
        )
    if natten is None:
        return _gathered(
            q_BhNd,
            k_BhNd,
            v_BhNe,
            hw_shape=hw_shape,
            kernel_size=kernel_size,
            dilation=dilation,
            bias=bias,
        )
    maps_BHWhd = (x.transpose(1, 2).unflatten(1, hw_shape) for x in (q_BhNd, k_BhNd, v_BhNe))
    y_BHWhe = natten.na2d(*maps_BHWhd, kernel_size=kernel_size, dilation=dilation)
    return y_BHWhe.flatten(1, 2).transpose(1, 2)


def fused_library(
    q_BhNd: Tensor,
    k_BhNd: Tensor,
    v_BhNe: Tensor,
    hw_shape: tuple[int, int],
    kernel_size: int,
    dilation: int,
) -> ModuleType | None:
    """Return NATTEN if it is installed with its CUDA kernels and they support the call, else None.

    The kernels support no bias, and require a map at least as large as the dilated neighbourhood
    and head widths divisible by 8. Written for NATTEN 0.21. Exported graphs never use it.
    """
    fits = 1 < kernel_size and kernel_size * dilation <= min(hw_shape)
    widths = q_BhNd.shape[-1] % 8 == 0 and v_BhNe.shape[-1] % 8 == 0
    types = q_BhNd.dtype == k_BhNd.dtype == v_BhNe.dtype and v_BhNe.dtype in FUSED_TYPES
    if not q_BhNd.is_cuda or is_exporting() or not (fits and widths and types):
        return None
    return _natten()


@functools.cache
def _natten() -> ModuleType | None:
    try:
        import natten
    except ImportError:
        return None
    return natten if getattr(natten, 'HAS_LIBNATTEN', False) else None


@full_precision
def _gathered(
    q_BhNd: Tensor,
    k_BhNd: Tensor,
    v_BhNe: Tensor,
    *,
    hw_shape: tuple[int, int],
    kernel_size: int,
    dilation: int,
    bias: Tensor | None,
) -> Tensor:
    H, W = hw_shape
    device = q_BhNd.device
    rows, rows_exist = nearest(H, kernel_size, dilation, device)
    cols, cols_exist = nearest(W, kernel_size, dilation, device)
    keys_NK = (rows[:, None, :, None] * W + cols[None, :, None]).reshape(H * W, -1)
    exists_NK = (rows_exist[:, None, :, None] & cols_exist[None, :, None]).reshape(H * W, -1)
    gathered = k_BhNd[:, :, keys_NK]
    logits_BhNK = (gathered @ (q_BhNd * q_BhNd.shape[-1] ** -0.5).unsqueeze(-1)).squeeze(-1)
    if bias is not None:
        offset_rows = _table_index(rows, kernel_size, dilation)
        offset_cols = _table_index(cols, kernel_size, dilation)
        table = bias[:, offset_rows[:, None, :, None], offset_cols[None, :, None]]
        logits_BhNK = logits_BhNK + table.reshape(bias.shape[0], H * W, -1)
    weights_BhNK = logits_BhNK.masked_fill(~exists_NK, -torch.inf).softmax(-1)
    return (weights_BhNK.unsqueeze(-2) @ v_BhNe[:, :, keys_NK]).squeeze(-2)


def _table_index(neighbours: Tensor, kernel_size: int, dilation: int) -> Tensor:
    """Index of the offset from each position on an axis to its neighbours in the table of biases.

    Neighbours that do not exist are clamped to the table; their logits are masked.
    """
    position = torch.arange(neighbours.shape[0], device=neighbours.device)[:, None]
    index = (neighbours - position) // dilation + kernel_size - 1
    return index.clamp(0, 2 * kernel_size - 2)


def routed_regions(
    q_BRnC: Tensor, k_BRnC: Tensor, topk: int, real_B1R: Tensor | None = None
) -> Tensor:
    """Regions whose mean keys are most similar to the mean query of each region, `(B, R, topk)`,
    without gradients.

    Source: BiFormer (Zhu et al., CVPR 2023), eqs. 3 and 4.

    Args:
        q_BRnC: queries in `R` regions of `n` tokens.
        topk: number of regions; all of them if there are fewer.
        real_B1R: boolean mask of the regions that are not only padding; the others are chosen last.
    """
    with torch.no_grad():
        similarity_BRR = q_BRnC.mean(2) @ k_BRnC.mean(2).transpose(-2, -1)
        if real_B1R is not None:
            similarity_BRR = similarity_BRR.masked_fill(~real_B1R, -torch.inf)
        return similarity_BRR.topk(min(topk, similarity_BRR.shape[-1]), dim=-1).indices


def routing_attention(
    q_BhRnd: Tensor,
    k_BhRnd: Tensor,
    v_BhRnd: Tensor,
    routes_BRt: Tensor,
    *,
    scale: float,
    bias: Tensor | None = None,
) -> Tensor:
    """Softmax attention from the tokens of each region to those of its routed regions.

    Cost: `2 N t n C` multiply-accumulates for `t` regions of `n` tokens. Source: BiFormer, eqs. 5
    and 6.

    Args:
        q_BhRnd: queries `(B, h, R, n, d)` in `R` regions.
        routes_BRt: result of `routed_regions`.
        scale: factor of the logits; in BiFormer `C ** -0.5`, not `d ** -0.5`.
        bias: added to the logits of the keys, `(B, 1, R, n)`; `-inf` excludes padding.

    Returns:
        `(B, h, R, n, d)`.
    """
    B, h, R, n, d = k_BhRnd.shape
    index = routes_BRt.flatten(1).unsqueeze(1)

    def gathered(x: Tensor) -> Tensor:
        picked = x.gather(2, index[..., None, None].expand(B, x.shape[1], -1, *x.shape[3:]))
        return picked.unflatten(2, (R, -1)).flatten(3, 4)

    if bias is not None:  # (B, 1, R, n) to (B, h R, 1, t n)
        bias = gathered(bias.unsqueeze(-1)).transpose(-2, -1).flatten(1, 2).repeat(1, h, 1, 1)
    y = softmax_attention(
        q_BhRnd.flatten(1, 2),
        gathered(k_BhRnd).flatten(1, 2),
        gathered(v_BhRnd).flatten(1, 2),
        bias=bias,
        scale=scale,
    )
    return y.unflatten(1, (h, R))

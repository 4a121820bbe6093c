"""What an attention knows of its tokens: their maps, which of them are real, and what they were projected from."""
from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from mmflatten.models.layers import join_prefix, map_to_tokens, split_prefix, tokens_to_map
from mmflatten.ops import pool_cells
from mmflatten.ops.sizes import same_size


@dataclass(frozen=True)
class Maps:
    """What `TokenMixer.attend` receives besides queries, keys and values.

    Attributes:
        hw: `(H, W)` of the queries' map.
        kv_hw: of the keys' map; another one where keys are reduced.
        mask: which keys a query may attend, boolean `(nW, N or 1, M)` where `B` is a multiple of `nW`; None for all.
        prefix: how many tokens stand before both maps, such as a class token.
        x: the mixer's input `(B, N, C)`; None where another mixer has projected it, unless it `needs_input`.
        extra: what the mixer's `extra_projections` made of the input, one `(B, N, ...)` for each.
    """

    hw: tuple[int, int]
    kv_hw: tuple[int, int]
    mask: Tensor | None = None
    prefix: int = 0
    x: Tensor | None = None
    extra: tuple[Tensor, ...] = ()


def fill_masked(x: Tensor, mask: Tensor | None, value: float) -> Tensor:
    """Tokens that no query may attend, set to `value`: how a mixer without logits obeys the mask of its window.

    Args:
        x: tokens of windows, `(B, M, C)` or `(B, h, M, d)`.
        mask: boolean `(nW, 1, M)`, or None, which changes nothing.
        value: 0 after a positive feature map whose sum counts, `-inf` before a softmax over tokens.

    Raises:
        ValueError: the mask differs between queries, as that of a shifted softmax window does.
    """
    real = real_tokens(x, mask)
    return x if real is None else x.masked_fill(~real, value)


def mean_of_real(x: Tensor, mask: Tensor | None) -> Tensor:
    """Masked tokens set to 0 and the others scaled up, so that a mean over all is the mean over the real ones.

    Shapes and errors as in `fill_masked`.
    """
    real = real_tokens(x, mask)
    if real is None:
        return x
    keep = real.to(x.dtype)
    return x * (keep / keep.mean(dim=-2, keepdim=True))


def real_or_not(mask: Tensor | None) -> Tensor | None:
    """1 for the real keys of each window, 0 for padding, `(nW, M)`; None where all are. Errors as in `fill_masked`."""
    return None if mask is None else _for_all_queries(mask).float()


def weights_of_real(mask: Tensor | None) -> Tensor | None:
    """What `mean_of_real` multiplies the keys of each window by, `(nW, M)`; None where all are real."""
    keep = real_or_not(mask)
    return keep if keep is None else keep / keep.mean(dim=-1, keepdim=True)


def real_tokens(x: Tensor, mask: Tensor | None) -> Tensor | None:
    """Which tokens are no padding, boolean `(B, 1, ..., M, 1)`; None where all are. Shapes and errors as above."""
    if mask is None:
        return None
    keep = _for_all_queries(mask).view(mask.shape[0], *[1] * (x.dim() - 3), -1, 1)
    return keep.repeat(x.shape[0] // mask.shape[0], *[1] * (x.dim() - 1))


def _for_all_queries(mask: Tensor) -> Tensor:
    """The row `(nW, M)` of a mask `(nW, 1, M)`, which must not differ between queries."""
    if mask.shape[1] != 1:
        raise ValueError(f'mask {tuple(mask.shape)} differs between queries; a mixer without logits takes (nW, 1, M)')
    return mask[:, 0]


def values_at_queries(v_BMC: Tensor, maps: Maps, bilinear: bool = False) -> Tensor:
    """Values on the queries' map, `(B, N, C)`, for a local term: padding as zeros, reduced maps enlarged.

    Quirk kept for parity: FLatten's code enlarges by linear interpolation along the flattened map, and so does this
    unless `bilinear`.
    """
    v_BMC = fill_masked(v_BMC, maps.mask, 0.)
    if same_size(maps.kv_hw, maps.hw):
        return v_BMC
    prefix, v_BMC = split_prefix(v_BMC, maps.kv_hw)
    if bilinear:
        v_BCHW = F.interpolate(tokens_to_map(v_BMC, maps.kv_hw), size=maps.hw, mode='bilinear')
        return join_prefix(prefix, map_to_tokens(v_BCHW))
    v_BCN = F.interpolate(v_BMC.transpose(1, 2), size=maps.hw[0] * maps.hw[1], mode='linear')
    return join_prefix(prefix, v_BCN.transpose(1, 2))


def masked_logits(k_BhMd: Tensor, mask: Tensor | None) -> Tensor | None:
    """What hides padding from a softmax over the keys, `(B, 1, 1, M)`: 0 and `-inf`; None where all are real."""
    real_B1M1 = real_tokens(k_BhMd, mask)
    if real_B1M1 is None:
        return None
    return torch.zeros_like(real_B1M1, dtype=k_BhMd.dtype).masked_fill(~real_B1M1, -torch.inf).transpose(-2, -1)


def pool_real(x_BNC: Tensor, hw_shape: tuple[int, int], mask: Tensor | None, side: int) -> Tensor:
    """Means of the real tokens in each cell of a square grid of `side x side`, `(B, side^2, C)`; 0 in empty cells.

    Prefix tokens are left out.
    """
    def pool(tokens: Tensor) -> Tensor:
        on_map = tokens_to_map(split_prefix(tokens, hw_shape)[1], hw_shape)
        return map_to_tokens(pool_cells(on_map, side))

    real_BN1 = real_tokens(x_BNC, mask)
    if real_BN1 is None:
        return pool(x_BNC)
    share = pool(real_BN1.to(x_BNC.dtype))
    return pool(x_BNC * real_BN1) / share.masked_fill(share == 0, 1)


def require_whole_map(mixer: object, maps: Maps) -> None:
    """Refuse what has no place in a mixer that works on the rows and columns of one map.

    Raises:
        ValueError: prefix tokens, reduced keys or masked padding.
    """
    if maps.prefix or maps.mask is not None or not same_size(maps.hw, maps.kv_hw):
        raise ValueError(f'prefix ({maps.prefix}) must be 0, kv_hw {maps.kv_hw} equal to hw {maps.hw} and no padding '
                         f'masked: {type(mixer).__name__} takes whole maps (with_cls_token=False, sr_ratio=1, no '
                         'windows that do not fit the map)')

"""Information about tokens that attention receives: shapes of maps, padding masks and further
inputs.
"""

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
    """Argument of `TokenMixer.attend` that describes the tokens.

    Attributes:
        hw: `(H, W)` of the queries' map.
        kv_hw: `(H, W)` of the keys' map, which is smaller if keys are reduced.
        mask: boolean `(nW, N or 1, M)`, true for keys that a query may attend to; `B` is a multiple
            of `nW`. None allows all.
        prefix: number of tokens before both maps, such as a class token.
        extra: the `extra_inputs` of the mixer, each `(B, N, ...)`.
    """

    hw: tuple[int, int]
    kv_hw: tuple[int, int]
    mask: Tensor | None = None
    prefix: int = 0
    extra: tuple[Tensor, ...] = ()


def fill_masked(x: Tensor, mask: Tensor | None, value: float) -> Tensor:
    """Set masked tokens to `value`, which applies the mask of a window in a mixer without logits.

    Args:
        x: tokens of windows, `(B, M, C)` or `(B, h, M, d)`.
        mask: boolean `(nW, 1, M)`, true for real tokens; None returns `x`.
        value: 0 after a positive feature map that is summed, `-inf` before a softmax over tokens.

    Raises:
        ValueError: the mask differs between queries, as in shifted softmax windows.
    """
    real = real_tokens(x, mask)
    return x if real is None else x.masked_fill(~real, value)


def mean_of_real(x: Tensor, mask: Tensor | None) -> Tensor:
    """Set masked tokens to 0 and scale the others, so that a mean over all tokens is the mean over
    the real ones.

    Shapes and errors are those of `fill_masked`.
    """
    real = real_tokens(x, mask)
    if real is None:
        return x
    keep = real.to(x.dtype)
    return x * (keep / keep.mean(dim=-2, keepdim=True))


def mask_weights(mask: Tensor | None) -> Tensor | None:
    """1 for real keys and 0 for padding, `(nW, M)`; None without a mask. Errors are those of
    `fill_masked`.
    """
    return None if mask is None else _for_all_queries(mask).float()


def weights_of_real(mask: Tensor | None) -> Tensor | None:
    """Factors by which `mean_of_real` multiplies the keys of each window, `(nW, M)`; None without a
    mask.
    """
    keep = mask_weights(mask)
    return keep if keep is None else keep / keep.mean(dim=-1, keepdim=True)


def real_tokens(x: Tensor, mask: Tensor | None) -> Tensor | None:
    """Boolean mask of real (non-padding) tokens, `(B, 1, ..., M, 1)`; None without a mask.

    Shapes and errors are those of `fill_masked`.
    """
    if mask is None:
        return None
    windows = mask.shape[0]
    between = [1] * (x.dim() - 3)  # axes between batch and tokens, such as heads
    keep = _for_all_queries(mask).view(windows, *between, -1, 1)
    return keep.repeat(x.shape[0] // windows, *between, 1, 1)


def _for_all_queries(mask: Tensor) -> Tensor:
    """`(nW, 1, M) -> (nW, M)`."""
    if mask.shape[1] != 1:
        raise ValueError(
            f'mask: expected shape (nW, 1, M), the same for all queries, got {tuple(mask.shape)}.'
            ' Masks that differ between queries require a mixer with has_logits.'
        )
    return mask[:, 0]


def values_at_queries(v_BMC: Tensor, maps: Maps, bilinear: bool = False) -> Tensor:
    """Values at the positions of the queries, `(B, N, C)`, for a local term. Padding becomes zero.

    Values of a reduced map are interpolated. Quirk kept for parity with FLatten's code: the
    interpolation is linear along the flattened map, unless `bilinear`.
    """
    v_BMC = fill_masked(v_BMC, maps.mask, 0.0)
    if same_size(maps.kv_hw, maps.hw):
        return v_BMC
    prefix, v_BMC = split_prefix(v_BMC, maps.kv_hw)
    if bilinear:
        v_BCHW = F.interpolate(tokens_to_map(v_BMC, maps.kv_hw), size=maps.hw, mode='bilinear')
        return join_prefix(prefix, map_to_tokens(v_BCHW))
    v_BCN = F.interpolate(v_BMC.transpose(1, 2), size=maps.hw[0] * maps.hw[1], mode='linear')
    return join_prefix(prefix, v_BCN.transpose(1, 2))


def masked_logits(k_BhMd: Tensor, mask: Tensor | None) -> Tensor | None:
    """Bias that excludes padding from a softmax over the keys, `(B, 1, 1, M)`: 0 or `-inf`. None
    without a mask.
    """
    real_B1M1 = real_tokens(k_BhMd, mask)
    if real_B1M1 is None:
        return None
    zeros = torch.zeros_like(real_B1M1, dtype=k_BhMd.dtype)
    return zeros.masked_fill(~real_B1M1, -torch.inf).transpose(-2, -1)


def pool_real(x_BNC: Tensor, hw_shape: tuple[int, int], mask: Tensor | None, side: int) -> Tensor:
    """Mean of the real tokens in each cell of a `side x side` grid, `(B, side^2, C)`; 0 in cells of
    padding.

    Prefix tokens are excluded.
    """

    def pool(x_BNC: Tensor) -> Tensor:
        _, tokens = split_prefix(x_BNC, hw_shape)
        return map_to_tokens(pool_cells(tokens_to_map(tokens, hw_shape), side))

    real_BN1 = real_tokens(x_BNC, mask)
    if real_BN1 is None:
        return pool(x_BNC)
    fraction = pool(real_BN1.to(x_BNC.dtype))
    return pool(x_BNC * real_BN1) / fraction.masked_fill(fraction == 0, 1)


def require_whole_map(mixer: object, maps: Maps) -> None:
    """Check that queries and keys are all tokens of one map, without prefix tokens or masked
    padding.

    Raises:
        ValueError: there are prefix tokens, reduced keys or a mask.
    """
    if maps.prefix or maps.mask is not None or not same_size(maps.hw, maps.kv_hw):
        found = 'no mask' if maps.mask is None else 'a mask'
        raise ValueError(
            f'{type(mixer).__name__}: expected all tokens of a map {maps.hw}, got {maps.prefix}'
            f' prefix tokens, keys of {maps.kv_hw} and {found}. Use with_cls_token=False,'
            ' sr_ratio=1 and windows that divide the map.'
        )

"""Polarity-aware linear attention of PolaFormer and PolaFormer++."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mmflatten.models.attention.gated import GatedMixer, RotaryMixer
from mmflatten.models.attention.local_term import ValueConv
from mmflatten.models.attention.maps import Maps, mean_of_real
from mmflatten.models.layers import GridTable
from mmflatten.ops import (
    linear_attention,
    merge_heads,
    no_autocast,
    positive_power,
    signed_parts,
    split_heads,
    upcast,
    widen,
)
from mmflatten.registry import MODELS


@MODELS.register_module()
class PolarityAwareLinearAttention(GatedMixer):
    """Linear attention with separate weights for query-key pairs of the same sign and of opposite
    signs.

    With `x+- = relu(+-x / softplus(s)) ** p`, half of the values are weighted by
    `[q+, q-] . [k+, k-]`, the other half by `[q-, q+] . [k+, k-]`. A depthwise convolution of the
    values is added, and the sum is multiplied by a gate. The output of a query whose features are
    orthogonal to those of all keys is 0.

    Cost: twice that of linear attention. Source: PolaFormer (Meng et al., ICLR 2025), eqs. 6 to 9,
    and its code, which adds the positional encoding of the keys and the learned scale.

    Args:
        alpha: range of the learned powers `p = 1 + alpha * sigmoid(w)`.
        kernel_size: of the convolution; all heads share its weights. None for none.

    Raises:
        ValueError: the width of a head is odd, so its values cannot be halved.
    """

    splits_heads = False
    lepe_kernel = 0  # `dwc` is the convolution of the values

    def __init__(
        self,
        embed_dims: int,
        num_heads: int,
        grid_size: tuple[int, int],
        *,
        alpha: float = 4.0,
        kernel_size: int | None = 5,
        **kwargs,
    ) -> None:
        super().__init__(embed_dims, num_heads, grid_size, **kwargs)
        check_halves(embed_dims, num_heads)
        self.alpha = alpha
        self.scale = nn.Parameter(torch.zeros(1, 1, embed_dims))
        self.power = nn.Parameter(torch.zeros(1, num_heads, 1, embed_dims // num_heads))
        self.positional_encoding = GridTable(embed_dims, grid_size)
        self.dwc = ValueConv(embed_dims, kernel_size, num_groups=num_heads) if kernel_size else None

    def attend(self, q_BNC: Tensor, k_BMC: Tensor, v_BMC: Tensor, maps: Maps) -> Tensor:
        k_BMC = self.positional_encoding(k_BMC, maps.kv_hw)
        with no_autocast(q_BNC):
            scaled = (
                split_heads(x / F.softplus(self.scale), self.num_heads)
                for x in upcast(q_BNC, k_BMC)
            )
            power = (1 + self.alpha * self.power.sigmoid()).repeat(1, 1, 1, 2)
            q_BhNf, k_BhMf = (positive_power(signed_parts(x), power) for x in scaled)
        k_BhMf = mean_of_real(k_BhMf, maps.mask)
        halves = zip((q_BhNf, swap(q_BhNf)), split_heads(v_BMC, self.num_heads).chunk(2, dim=-1))
        y_BhNd = torch.cat([linear_attention(q, k_BhMf, v) for q, v in halves], dim=-1)
        y_BNC = merge_heads(y_BhNd)
        return y_BNC if self.dwc is None else y_BNC + self.dwc(v_BMC, maps)


@MODELS.register_module()
class ExponentialPolarityAttention(RotaryMixer):
    """Polarity-aware linear attention with exponential features, rotary positions and a gate.

    The features of queries are `exp(sigmoid(s) x+-) - 1`, with separate scales `s` for products of
    the same sign and of opposite signs, those of keys `exp(x+-) - 1`. The denominator does not use
    positions. Source: PolaFormer++. To avoid overflow, features are divided by the exponential of
    the largest exponent of the query or of all keys of the head; these factors cancel.
    """

    def __init__(
        self, embed_dims: int, num_heads: int, grid_size: tuple[int, int], **kwargs
    ) -> None:
        super().__init__(embed_dims, num_heads, grid_size, **kwargs)
        check_halves(embed_dims, num_heads)
        self.scales = nn.Parameter(torch.zeros(2, 1, num_heads, 1, 2 * embed_dims // num_heads))

    def attend(self, q_BhNd: Tensor, k_BhMd: Tensor, v_BhMd: Tensor, maps: Maps) -> Tensor:
        q_BhNf, k_BhMf = (signed_parts(x) for x in upcast(q_BhNd, k_BhMd))
        with no_autocast(q_BhNf):
            same, opposite = self.scales.sigmoid()
            k_BhMf, k_factor = _exponential(k_BhMf, dim=(-2, -1))
            k_BhMf = mean_of_real(k_BhMf, maps.mask)
            rotated_k_BhMf = self.rotated(k_BhMf, maps.kv_hw)
            # Half of the values for products of the same sign, half for those of opposite signs.
            queries = (q_BhNf * same, swap(q_BhNf) * opposite)
            halves = []
            for x_BhNf, v_BhMe in zip(queries, widen(v_BhMd).chunk(2, dim=-1)):
                x_BhNf, factor = _exponential(x_BhNf, dim=(-1,))
                halves.append(
                    linear_attention(
                        x_BhNf,
                        k_BhMf,
                        v_BhMe,
                        eps=(1e-6 * factor * k_factor).clamp(min=1e-12),
                        rotated_q_BhNd=self.rotated(x_BhNf, maps.hw),
                        rotated_k_BhMd=rotated_k_BhMf,
                    )
                )
        return torch.cat(halves, dim=-1)


def swap(x_BhNf: Tensor) -> Tensor:
    """`[x+, x-]` to `[x-, x+]`."""
    return x_BhNf.roll(x_BhNf.shape[-1] // 2, dims=-1)


def check_halves(embed_dims: int, num_heads: int) -> None:
    """Raise a ValueError if the width of a head is odd."""
    if embed_dims // num_heads % 2:
        raise ValueError(
            'num_heads: expected heads of an even width, because their values are split into'
            f' halves, got {num_heads} heads for {embed_dims} channels.'
        )


def _exponential(x: Tensor, dim: tuple[int, ...]) -> tuple[Tensor, Tensor]:
    """`(exp(x) - 1) * f` for non-negative `x`, and the factor `f = exp(-max(x))` over `dim`."""
    top = x.detach().amax(dim=dim, keepdim=True)
    return (x - top).exp() - (-top).exp(), (-top).exp()

"""Enhanced linear attention of L2ViT."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from mmflatten.models.attention.base import TokenMixer
from mmflatten.models.attention.maps import Maps, fill_masked, mask_weights
from mmflatten.models.layers import LocalConcentration
from mmflatten.ops.linear.kernels import fused_linear_attention
from mmflatten.registry import MODELS


@MODELS.register_module()
class ClampedLinearAttention(TokenMixer):
    """ReLU linear attention with a lower bound on the denominator and a learned scale of `k^T v`.

    Source: L2ViT, sec. 4.1, 4.2 and 8. The denominator is a sum over all tokens, so the bound
    matters more on smaller maps; the official code uses 100 at every resolution. Followed by a
    local concentration module, this is the paper's enhanced linear attention.

    Args:
        min_denominator: lower bound of the denominator (Table 10).
        temperature: learn a scale per head (Table 6), initialised with `d ** -0.5` as in the
            official code; the paper states `sqrt(C)`.
        lcm_kernel: kernel size of a local concentration module after the projection, with its own
            norm and residual connection (eq. 8); None or 0 for none. In L2ViT it is a branch of the
            block instead.
    """

    splits_heads = False

    def __init__(
        self,
        embed_dims: int,
        num_heads: int,
        grid_size: tuple[int, int],
        *,
        min_denominator: float = 100.0,
        temperature: bool = True,
        lcm_kernel: int | None = None,
        **kwargs,
    ) -> None:
        super().__init__(embed_dims, num_heads, grid_size, **kwargs)
        if min_denominator <= 0:
            raise ValueError(f'min_denominator: expected a positive number, got {min_denominator}.')
        self.min_denominator = min_denominator
        head_dims = embed_dims // num_heads
        self.temperature = (
            nn.Parameter(torch.full((num_heads, 1, 1), head_dims**-0.5)) if temperature else None
        )
        self.lcm_norm = nn.LayerNorm(embed_dims) if lcm_kernel else nn.Identity()
        self.lcm = LocalConcentration(embed_dims, lcm_kernel) if lcm_kernel else None

    def forward(self, x: Tensor, hw_shape: tuple[int, int], mask: Tensor | None = None) -> Tensor:
        y_BNC = super().forward(x, hw_shape, mask)
        if self.lcm is None:
            return y_BNC
        return y_BNC + self.lcm(fill_masked(self.lcm_norm(y_BNC), mask, 0.0), hw_shape)

    def attend(self, q_BNC: Tensor, k_BMC: Tensor, v_BMC: Tensor, maps: Maps) -> Tensor:
        return fused_linear_attention(
            q_BNC,
            k_BMC,
            v_BMC,
            self.num_heads,
            floor=0.0,
            min_denominator=self.min_denominator,
            temperature_h=None if self.temperature is None else self.temperature.flatten(),
            weight_WM=mask_weights(maps.mask),
        )

"""Bi-level routing attention of BiFormer."""
from __future__ import annotations

import torch
import torch.nn.functional as F
from einops import rearrange
from torch import Tensor

from mmflatten.models.attention.base import TokenMixer
from mmflatten.models.attention.maps import Maps, require_whole_map
from mmflatten.ops import routed_regions, routing_attention
from mmflatten.ops.sizes import ceil_div
from mmflatten.registry import MODELS


@MODELS.register_module()
class BiLevelRoutingAttention(TokenMixer):
    """Softmax attention of each region of the map to the `topk` regions with the most similar mean key.

    Source: BiFormer (Zhu et al., CVPR 2023). The regions form a square grid over a map of any size. The map is
    zero-padded to whole regions; padding is neither attended nor part of the means.

    Args:
        num_regions: number of regions along each axis.
        topk: number of regions that each region attends to.
        lepe_kernel: kernel size of the convolution of the values, 5 in the paper.

    Raises:
        ValueError: `num_regions` or `topk` is below 1, or there are prefix tokens, reduced keys or masked padding.
    """

    splits_heads = False

    def __init__(self, embed_dims: int, num_heads: int, grid_size: tuple[int, int], *, num_regions: int = 7,
                 topk: int = 4, lepe_kernel: int = 5, **kwargs) -> None:
        super().__init__(embed_dims, num_heads, grid_size, lepe_kernel=lepe_kernel, **kwargs)
        if num_regions < 1 or topk < 1:
            raise ValueError(f'num_regions ({num_regions}) and topk ({topk}) must be at least 1')
        self.num_regions, self.topk = num_regions, topk

    def attend(self, q_BNC: Tensor, k_BNC: Tensor, v_BNC: Tensor, maps: Maps) -> Tensor:
        require_whole_map(self, maps)
        real_BRn1 = self._regions(torch.ones_like(q_BNC[..., :1]), maps.hw)
        # A sum instead of a mean, because ONNX cannot fold a mean of constants.
        fraction_BR11 = (real_BRn1.sum(dim=2, keepdim=True) / real_BRn1.shape[2]).clamp(min=1e-6)
        q_BRnC, k_BRnC, v_BRnC = (self._regions(x, maps.hw) for x in (q_BNC, k_BNC, v_BNC))
        real_B1R = (real_BRn1.amax(dim=2) > 0).transpose(1, 2)
        routes = routed_regions(q_BRnC / fraction_BR11, k_BRnC / fraction_BR11, self.topk, real_B1R)
        bias_B1Rn = torch.zeros_like(real_BRn1).masked_fill(real_BRn1 == 0, -1e4)[..., 0].unsqueeze(1)
        q, k, v = (rearrange(x, 'B R n (h d) -> B h R n d', h=self.num_heads) for x in (q_BRnC, k_BRnC, v_BRnC))
        y = routing_attention(q, k, v, routes, scale=q_BNC.shape[-1] ** -.5, bias=bias_B1Rn)
        side = ceil_div(maps.hw[0], self.num_regions)
        y = rearrange(y, 'B h (Y X) (y x) d -> B (Y y) (X x) (h d)', Y=self.num_regions, y=side)
        return y[:, :maps.hw[0], :maps.hw[1]].flatten(1, 2)

    def _regions(self, x_BNC: Tensor, hw_shape: tuple[int, int]) -> Tensor:
        """`(B, N, C) -> (B, R, n, C)`, zero-padded to whole regions."""
        (H, W), number = hw_shape, self.num_regions
        height, width = (ceil_div(length, number) * number for length in hw_shape)
        x = F.pad(x_BNC.unflatten(1, hw_shape), (0, 0, 0, width - W, 0, height - H))
        return rearrange(x, 'B (Y y) (X x) C -> B (Y X) (y x) C', Y=number, X=number)

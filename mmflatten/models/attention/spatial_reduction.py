"""PVT's spatial reduction of keys and values."""
from __future__ import annotations

from mmengine.model import BaseModule
from torch import Tensor, nn

from mmflatten.models.layers import join_prefix, map_to_tokens, pad_to_multiple, split_prefix, tokens_to_map


class SpatialReduction(BaseModule):
    """Strided convolution on the map of the tokens, followed by a norm.

    Prefix tokens, such as a class token, are only normalised and stay before the map. Source: Pyramid Vision
    Transformer (ICCV 2021), sec. 3.3.
    """

    def __init__(self, embed_dims: int, sr_ratio: int) -> None:
        super().__init__()
        self.sr_ratio = sr_ratio
        self.conv = nn.Conv2d(embed_dims, embed_dims, sr_ratio, sr_ratio)
        self.norm = nn.LayerNorm(embed_dims)

    def forward(self, x_BNC: Tensor, hw_shape: tuple[int, int]) -> tuple[Tensor, tuple[int, int]]:
        """Reduced tokens and the shape of their map, which is first zero-padded to a multiple of `sr_ratio`."""
        prefix, tokens = split_prefix(x_BNC, hw_shape)
        x_BCHW = self.conv(pad_to_multiple(tokens_to_map(tokens, hw_shape), (self.sr_ratio, self.sr_ratio)))
        return self.norm(join_prefix(prefix, map_to_tokens(x_BCHW))), (x_BCHW.shape[2], x_BCHW.shape[3])

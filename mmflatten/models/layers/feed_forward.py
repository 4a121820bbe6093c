"""Feed-forward network of a block."""
from __future__ import annotations

import torch.nn.functional as F
from mmengine.model import BaseModule
from torch import Tensor

from mmflatten.models.layers.linear import Linear, gelu_of
from mmflatten.models.layers.local_concentration import NormalizedConv
from mmflatten.models.layers.position import TokenConv


class FeedForward(BaseModule):
    """`fc2(gelu(fc1(x)))`, with an optional convolution between `fc1` and the activation.

    Args:
        embed_dims: channels of the tokens.
        hidden_dims: channels between the two projections.
        inner: convolution of the hidden tokens before the activation, such as PVTv2's; none by default.
    """

    def __init__(self, embed_dims: int, hidden_dims: int, inner: TokenConv | NormalizedConv | None = None,
                 init_cfg: dict | None = None) -> None:
        super().__init__(init_cfg)
        self.fc1 = Linear(embed_dims, hidden_dims)
        self.inner = inner
        self.fc2 = Linear(hidden_dims, embed_dims)

    def forward(self, x_BNC: Tensor, hw_shape: tuple[int, int]) -> Tensor:
        if self.inner is None:
            return self.fc2(gelu_of(self.fc1, x_BNC))
        return self.fc2(gelu_of(self.inner, self.fc1(x_BNC), hw_shape))


class ConvFeedForward(FeedForward):
    """`fc2(u + conv(u))` with `u = gelu(fc1(x))` and a depthwise 3 x 3 convolution.

    Args:
        embed_dims: channels of the tokens.
        hidden_dims: channels between the two projections.
        act_twice: a second GELU behind the convolution (H-ViT^3).
    """

    def __init__(self, embed_dims: int, hidden_dims: int, act_twice: bool = False,
                 init_cfg: dict | None = None) -> None:
        super().__init__(embed_dims, hidden_dims, init_cfg=init_cfg)
        self.conv = TokenConv(hidden_dims, 3)
        self.act_twice = act_twice

    def forward(self, x_BNC: Tensor, hw_shape: tuple[int, int]) -> Tensor:
        u_BNC = gelu_of(self.fc1, x_BNC)
        u_BNC = u_BNC + self.conv(u_BNC, hw_shape)
        return self.fc2(F.gelu(u_BNC) if self.act_twice else u_BNC)

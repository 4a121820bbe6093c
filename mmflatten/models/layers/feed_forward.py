"""Feed-forward networks of a block."""

from __future__ import annotations

import torch.nn.functional as F
from mmengine.model import BaseModule
from torch import Tensor

from mmflatten.models.layers.linear import Linear, LinearGELU
from mmflatten.models.layers.token_conv import NormalizedConv, TokenConv
from mmflatten.models.layers.tokens import join_prefix, split_prefix


class FeedForward(BaseModule):
    """`fc2(gelu(fc1(x)))`, or `fc2(inner(fc1(x)))`.

    Args:
        embed_dims: channels of the tokens.
        hidden_dims: channels between the two linear layers.
        inner: module that replaces GELU, called as `inner(hidden_BNC, hw_shape)`, such as PVTv2's
            `TokenConv(hidden_dims, 3, gelu=True)`.

    Raises:
        ValueError: `inner` is a `TokenConv` without GELU, so that the network would have no
            activation.
    """

    def __init__(
        self,
        embed_dims: int,
        hidden_dims: int,
        inner: TokenConv | NormalizedConv | None = None,
        init_cfg: dict | None = None,
    ) -> None:
        super().__init__(init_cfg)
        if isinstance(inner, TokenConv) and not inner.gelu:
            raise ValueError(
                'inner: expected a module that contains an activation, got a TokenConv without one.'
                ' Set gelu=True.'
            )
        first = LinearGELU if inner is None else Linear
        self.fc1 = first(embed_dims, hidden_dims)
        self.inner = inner
        self.fc2 = Linear(hidden_dims, embed_dims)

    def forward(self, x_BNC: Tensor, hw_shape: tuple[int, int]) -> Tensor:
        hidden_BNC = self.fc1(x_BNC)
        if self.inner is not None:
            hidden_BNC = self.inner(hidden_BNC, hw_shape)
        return self.fc2(hidden_BNC)


class SwiGLU(BaseModule):
    """`fc2(silu(gate) * value)`, where `gated(x)` is gate and value, `hidden_dims` channels each
    (DINOv2, DINOv3).
    """

    def __init__(self, embed_dims: int, hidden_dims: int, init_cfg: dict | None = None) -> None:
        super().__init__(init_cfg)
        self.gated = Linear(embed_dims, 2 * hidden_dims)
        self.fc2 = Linear(hidden_dims, embed_dims)

    def forward(self, x_BNC: Tensor, hw_shape: tuple[int, int]) -> Tensor:
        gate_BNC, value_BNC = self.gated(x_BNC).chunk(2, dim=-1)
        return self.fc2(F.silu(gate_BNC) * value_BNC)


class ConvFeedForward(FeedForward):
    """`fc2(u + conv(u))` with `u = gelu(fc1(x))` and a depthwise 3 x 3 convolution, which skips
    prefix tokens.

    Args:
        embed_dims: channels of the tokens.
        hidden_dims: channels between the two linear layers.
        act_twice: apply a second GELU before `fc2` (H-ViT^3).
        residual: False has `conv(u)` alone on the map (EfficientViT).
    """

    def __init__(
        self,
        embed_dims: int,
        hidden_dims: int,
        act_twice: bool = False,
        residual: bool = True,
        init_cfg: dict | None = None,
    ) -> None:
        super().__init__(embed_dims, hidden_dims, init_cfg=init_cfg)
        self.conv = TokenConv(hidden_dims, 3)
        self.act_twice = act_twice
        self.residual = residual

    def forward(self, x_BNC: Tensor, hw_shape: tuple[int, int]) -> Tensor:
        u_BNC = self.fc1(x_BNC)
        conv_BNC = self.conv(u_BNC, hw_shape)
        if self.residual:
            u_BNC = u_BNC + conv_BNC
        else:
            prefix, _ = split_prefix(u_BNC, hw_shape)
            _, tokens = split_prefix(conv_BNC, hw_shape)
            u_BNC = join_prefix(prefix, tokens)
        if self.act_twice:
            u_BNC = F.gelu(u_BNC)
        return self.fc2(u_BNC)

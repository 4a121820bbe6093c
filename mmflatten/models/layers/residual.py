"""Residual branches, stochastic depth and blocks, shared by all families."""

from __future__ import annotations

import torch
from mmengine.model import BaseModule
from torch import Tensor, nn

from mmflatten.models.layers.token_conv import TokenConv


class DropPath(nn.Module):
    """In training, zero a branch for a fraction `drop_prob` of the samples and rescale it for the
    others.

    Source: Huang et al., Deep Networks with Stochastic Depth (ECCV 2016).
    """

    keep: Tensor

    def __init__(self, drop_prob: float) -> None:
        super().__init__()
        self.drop_prob = drop_prob
        # A tensor, because compiled code is shared by blocks that differ in the values of their
        # tensors alone.
        self.register_buffer('keep', torch.tensor(1 - drop_prob), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        """`(B, ...)` to the same shape."""
        if not self.training:
            return x
        mask = x.new_empty(x.shape[0], *[1] * (x.dim() - 1)).bernoulli_(self.keep)
        return x * (mask / self.keep)

    def extra_repr(self) -> str:
        return f'drop_prob={self.drop_prob}'


class Residual(BaseModule):
    """`x + drop_path(layer_scale * fn(norm(x), hw_shape))`.

    Args:
        fn: module called as `fn(x_BNC, hw_shape)`, a token mixer or a feed-forward network. With an
            attribute `needs_residual` that is true it also receives the branch's input before the
            norm, `residual=x_BNC`.
        norm: normalisation of the branch's input; none by default.
        drop_path: probability of dropping the branch for a sample.
        layer_scale: number of channels and initial value of the learned scale per channel; no scale
            by default.
        around: called in the place of `fn`, which it calls, to run it in windows without other
            names of weights.
    """

    def __init__(
        self,
        fn: nn.Module,
        norm: nn.Module | None = None,
        drop_path: float = 0.0,
        layer_scale: tuple[int, float] | None = None,
        around: nn.Module | None = None,
    ) -> None:
        super().__init__()
        self.norm = nn.Identity() if norm is None else norm
        self.fn = fn
        self.around = around
        self.drop_path = DropPath(drop_path) if drop_path else nn.Identity()
        self.layer_scale = (
            None
            if layer_scale is None
            else nn.Parameter(torch.full(layer_scale[:1], layer_scale[1]))
        )

    def forward(self, x_BNC: Tensor, hw_shape: tuple[int, int]) -> Tensor:
        more = dict(residual=x_BNC) if getattr(self.fn, 'needs_residual', False) else {}
        y_BNC = (self.fn if self.around is None else self.around)(
            self.norm(x_BNC), hw_shape, **more
        )
        return x_BNC + self.drop_path(
            y_BNC if self.layer_scale is None else y_BNC * self.layer_scale
        )


class Block(BaseModule):
    """Named residual branches, run in the order of the arguments."""

    def __init__(self, **branches: Residual) -> None:
        super().__init__()
        for name, branch in branches.items():
            self.add_module(name, branch)

    def forward(self, x_BNC: Tensor, hw_shape: tuple[int, int]) -> Tensor:
        for branch in self.children():
            x_BNC = branch(x_BNC, hw_shape)
        return x_BNC


def pre_norm_block(
    mixer: nn.Module,
    ffn: nn.Module,
    embed_dims: int,
    drop_path: float = 0.0,
    eps: float = 1e-5,
    cpe_kernel: int = 0,
    layer_scale: float = 0.0,
    around: nn.Module | None = None,
) -> Block:
    """Pre-norm transformer block: attention `attn`, then a feed-forward network `ffn`, each after a
    `LayerNorm`.

    Args:
        mixer: token mixer.
        ffn: feed-forward network.
        embed_dims: channels of the tokens.
        drop_path: probability of dropping each of the two branches for a sample.
        eps: of the norms.
        cpe_kernel: kernel size of the conditional positional encoding `cpe`, a depthwise
            convolution before both; 0 for none.
        layer_scale: initial value of the learned scales of both branches; 0 for none.
        around: as in `Residual`, of the attention.
    """
    scale = (embed_dims, layer_scale) if layer_scale else None
    cpe = dict(cpe=Residual(TokenConv(embed_dims, cpe_kernel))) if cpe_kernel else {}
    return Block(
        **cpe,
        attn=Residual(mixer, nn.LayerNorm(embed_dims, eps), drop_path, scale, around),
        ffn=Residual(ffn, nn.LayerNorm(embed_dims, eps), drop_path, scale),
    )

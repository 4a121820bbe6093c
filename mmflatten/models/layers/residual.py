"""Residual branches, stochastic depth and blocks."""

from __future__ import annotations

import torch
from mmengine.model import BaseModule
from torch import Tensor, nn


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
        fn: module called as `fn(x_BNC, hw_shape)`, a token mixer or a feed-forward network. If it
            has an attribute `needs_residual` that is true, it also receives the branch's input
            before the norm, `residual=x_BNC`.
        norm: normalisation of the branch's input; none by default.
        drop_path: probability of dropping the branch for a sample.
        layer_scale: number of channels and initial value of the learned scale per channel; no scale
            by default.
    """

    def __init__(
        self,
        fn: nn.Module,
        norm: nn.Module | None = None,
        drop_path: float = 0.0,
        layer_scale: tuple[int, float] | None = None,
    ) -> None:
        super().__init__()
        self.norm = nn.Identity() if norm is None else norm
        self.fn = fn
        self.drop_path = DropPath(drop_path) if drop_path else nn.Identity()
        self.layer_scale: nn.Parameter | None = None
        if layer_scale is not None:
            channels, value = layer_scale
            self.layer_scale = nn.Parameter(torch.full((channels,), value))

    def forward(
        self, x_BNC: Tensor, hw_shape: tuple[int, int], mask: Tensor | None = None
    ) -> Tensor:
        y_BNC = self.branch(x_BNC, hw_shape, mask)
        if self.layer_scale is not None:
            y_BNC = y_BNC * self.layer_scale
        return x_BNC + self.drop_path(y_BNC)

    def branch(
        self, x_BNC: Tensor, hw_shape: tuple[int, int], mask: Tensor | None = None
    ) -> Tensor:
        """`fn(norm(x), hw_shape)`, before scale and drop path, or `fn(norm(x), hw_shape, mask)`."""
        if mask is not None:
            return self.fn(self.norm(x_BNC), hw_shape, mask)
        if getattr(self.fn, 'needs_residual', False):
            return self.fn(self.norm(x_BNC), hw_shape, residual=x_BNC)
        return self.fn(self.norm(x_BNC), hw_shape)


class Block(BaseModule):
    """Named residual branches, run in the order of the arguments.

    A mask is that of the token mixer in the branch `attn`.
    """

    def __init__(self, **branches: Residual) -> None:
        super().__init__()
        for name, branch in branches.items():
            self.add_module(name, branch)

    def forward(
        self, x_BNC: Tensor, hw_shape: tuple[int, int], mask: Tensor | None = None
    ) -> Tensor:
        for name, branch in self.named_children():
            x_BNC = branch(x_BNC, hw_shape, mask if name == 'attn' else None)
        return x_BNC

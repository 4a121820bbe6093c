"""Stochastic depth."""
from __future__ import annotations

from torch import Tensor, nn


class DropPath(nn.Module):
    """In training, zero a branch for a fraction `drop_prob` of the samples and rescale it for the others.

    Source: Huang et al., Deep Networks with Stochastic Depth (ECCV 2016).
    """

    def __init__(self, drop_prob: float) -> None:
        super().__init__()
        self.drop_prob = drop_prob

    def forward(self, x: Tensor) -> Tensor:
        """`(B, ...)` to the same shape."""
        if not self.training or not self.drop_prob:
            return x
        keep = 1 - self.drop_prob
        mask = x.new_empty(x.shape[0], *[1] * (x.dim() - 1)).bernoulli_(keep)
        return x * (mask / keep)

    def extra_repr(self) -> str:
        return f'drop_prob={self.drop_prob}'

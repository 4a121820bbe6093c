"""Progressive re-parameterised batch normalisation of SLAB."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class ProgressiveBatchNorm(nn.Module):
    """`w LayerNorm(x) + (1 - w) (BatchNorm(x) + a x)`, where `w` falls from 1 to 0 over the first
    training steps.

    Source: SLAB (Guo et al., ICML 2024), eqs. 4 to 6. Evaluation uses the second term alone at any
    time, as in the released code: a linear map of each channel, which can be merged into a
    following projection. Steps are counted by forward passes in training.

    Args:
        channels: `C`.
        steps: number of steps over which `w` falls. A checkpoint sets it, because the buffer
            `steps` is loaded.
        eps: of the layer norm.
    """

    steps: Tensor
    remaining: Tensor

    def __init__(self, channels: int, steps: int, eps: float = 1e-5) -> None:
        super().__init__()
        if steps < 1:
            raise ValueError(f'steps: expected at least 1, got {steps}.')
        self.layer_norm = nn.LayerNorm(channels, eps)
        self.batch_norm = nn.BatchNorm1d(channels)
        self.alpha = nn.Parameter(torch.ones(1))
        self.register_buffer('steps', torch.tensor(steps))
        self.register_buffer('remaining', torch.tensor(steps))

    def forward(self, x_BNC: Tensor) -> Tensor:
        normed_BNC = self.batch_norm(x_BNC.flatten(0, -2)).view_as(x_BNC) + self.alpha * x_BNC
        if not self.training:
            return normed_BNC
        # activation checkpointing repeats the forward pass
        recomputing = self.batch_norm.num_batches_tracked is None
        weight = (self.remaining + int(recomputing)).clamp(min=0) / self.steps
        if not recomputing:
            self.remaining -= 1
        return weight * self.layer_norm(x_BNC) + (1 - weight) * normed_BNC


def make_norms_progressive(module: nn.Module, steps: int) -> None:
    """Replace every `LayerNorm` of a module with a `ProgressiveBatchNorm`."""
    for name, child in module.named_children():
        if isinstance(child, nn.LayerNorm):
            setattr(module, name, ProgressiveBatchNorm(child.normalized_shape[0], steps, child.eps))
        else:
            make_norms_progressive(child, steps)

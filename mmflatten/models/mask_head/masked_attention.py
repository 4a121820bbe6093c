"""Masked attention of queries, and how it is annealed away in training."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from mmflatten.models.layers import Residual
from mmflatten.models.mask_head.pixel_decoder import resize_map

_DECAY = 0.9  # exponent of the annealing


def mask_probabilities(step: Tensor, num_blocks: int, anneal_steps: int) -> Tensor:
    """Probability of masked attention for each block at a step of the training, `(num_blocks,)`.

    With `n` blocks, that of block `i` is 1 until the fraction `(i + 1) / (n + 2)` of
    `anneal_steps`, and reaches 0 at `(i + 2) / (n + 2)`: `(1 - progress) ** 0.9`. These are the
    steps of EoMT's configs. Without `anneal_steps` all are 0.
    """
    index = torch.arange(num_blocks, device=step.device)
    if not anneal_steps:
        return torch.zeros_like(index, dtype=torch.float32)
    done = step / anneal_steps * (num_blocks + 2)
    progress = (done - (index + 1)).clamp(0, 1)
    return (1 - progress) ** _DECAY


@torch.no_grad()
def visible_keys(
    masks_BQHW: Tensor, hw_shape: tuple[int, int], number: int, probability: Tensor
) -> Tensor:
    """Keys that each query and token of a block may attend to, boolean `(B, N, N)`.

    The sequence is `[queries, prefix tokens, tokens of the map]`. Queries see all queries and
    prefix tokens. With its probability a query sees only the tokens in its mask, else all. The
    others see all.

    Args:
        masks_BQHW: mask logits of the queries, of any size.
        hw_shape: `(H, W)` of the map of the tokens.
        number: length `N` of the sequence.
        probability: that of masked attention.
    """
    B, Q = masks_BQHW.shape[:2]
    inside_BQN = resize_map(masks_BQHW, hw_shape).flatten(2) > 0
    is_free_BQ1 = torch.rand(B, Q, 1, device=masks_BQHW.device) >= probability
    visible_BNN = masks_BQHW.new_ones((B, number, number), dtype=torch.bool)
    visible_BNN[:, :Q, number - inside_BQN.shape[2] :] = inside_BQN | is_free_BQ1
    return visible_BNN


def can_mask(block: nn.Module) -> bool:
    """Return True if the attention of a block supports a mask for each query."""
    attention = getattr(block, 'attn', None)
    if type(attention) is not Residual:  # in windows
        return False
    mixer = attention.fn
    return getattr(mixer, 'has_logits', False) and getattr(mixer, 'reduction', None) is None

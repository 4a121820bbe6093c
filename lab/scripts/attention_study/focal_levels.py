"""Weights and biases of focal attention (`is_focal`) by level. Source: Focal Transformer, Figures 7
and 8.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from mmflatten.explain.attention.layer import AttentionLayer
from mmflatten.models.attention import FocalAttention
from mmflatten.ops import roll_and_crop

COLOURS = 9  # three along each axis


def level_shares(layer: AttentionLayer) -> dict[str, Tensor]:
    """Compute the weight on the query's window, on neighbouring tokens, and on the pooled tokens of
    each level.

    Means over the queries of the map. A token that is a key of two levels counts in both. Padding
    that a window attends to counts in the window where it lies.

    Returns:
        'window', 'neighbours', 'pooled 1' (whole windows), 'pooled 2' and so on, and 'prefix' if
        there are prefix tokens, each `(h,)`; they sum to 1.
    """
    mixer, window = layer.module, layer.module.window_size
    rows, cols = (-(-side // window) for side in layer.hw)
    # The value of each key is a one-hot code of its level, or of the colour of its window; adjacent
    # ones differ.
    colours = (3 * _colours(rows)[:, None] + _colours(cols)).flatten()
    counts = [rows * cols * 4**level for level in range(len(mixer.pools))] + [layer.prefix]
    levels = torch.arange(COLOURS, COLOURS + len(counts)).repeat_interleave(torch.tensor(counts))
    kinds = torch.cat((colours.repeat_interleave(window**2), levels))
    values = F.one_hot(kinds, COLOURS + len(counts)).to(layer.x).repeat(1, mixer.num_heads)[None]
    with torch.no_grad():
        q, k, _, maps = mixer.projections(layer.x, layer.hw)
        y_1NC = mixer.attend(q, k, values, maps)
    # (h, N, kinds)
    weights = y_1NC[0, layer.prefix :].unflatten(1, (mixer.num_heads, -1)).transpose(0, 1).double()
    own = colours.to(layer.x.device)[_windows(layer, (rows, cols))].expand(mixer.num_heads, -1)[
        ..., None
    ]
    window_weight = weights.gather(2, own)[..., 0]
    names = [f'pooled {level + 1}' for level in range(len(mixer.pools))]
    if layer.prefix:
        names.append('prefix')
    return {
        'window': window_weight.mean(1),
        'neighbours': (weights[..., :COLOURS].sum(-1) - window_weight).mean(1),
        **{name: weights[..., COLOURS + number].mean(1) for number, name in enumerate(names)},
    }


def _colours(number: int) -> Tensor:
    """Colour windows along an axis so that adjacent ones differ, also the last and the first."""
    colours = torch.arange(number) % 2
    colours[-1] += 2 * (number % 2 and number > 1)
    return colours


def pooled_biases(layer: AttentionLayer) -> list[Tensor]:
    """Return the learned biases of the pooled tokens around a window for each level,
    `(h, side, side)`.

    Means over the queries of the window.
    """
    biases = [bias().detach().mean(1) for bias in layer.module.pooled_bias]
    return [bias.unflatten(1, (round(bias.shape[1] ** 0.5), -1)) for bias in biases]


def is_focal(layer: AttentionLayer) -> bool:
    return isinstance(layer.module, FocalAttention)


def _windows(layer: AttentionLayer, grid: tuple[int, int]) -> Tensor:
    """Return the number of the window of every query of the map, `(N,)`."""
    mixer = layer.module
    y, x = (
        torch.arange(number, device=layer.x.device).repeat_interleave(mixer.window_size)
        for number in grid
    )
    numbers = (y[:, None] * grid[1] + x)[None, :, :, None]
    return roll_and_crop(numbers, layer.hw, mixer.distances).flatten()

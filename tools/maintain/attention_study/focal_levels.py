"""What focal attention attends at which granularity. Source: Focal Transformer, Figures 7 and 8."""
from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from mmflatten.explain.attention.layer import AttentionLayer
from mmflatten.models.attention import FocalAttention
from mmflatten.ops import roll_and_crop


def level_shares(layer: AttentionLayer) -> dict[str, Tensor]:
    """The weight on tokens of the own window, on its neighbours, and on pooled tokens level by level.

    A key that stands in two levels counts in both, once each. Means over the queries of the map; padding that the
    windows attend counts where it stands.

    Returns:
        'window', 'neighbours', 'pooled 1' (whole windows), 'pooled 2' and so on, and 'prefix' where there are prefix
        tokens, each `(h,)`; they sum to 1.

    Raises:
        ValueError: the layer is no focal attention.
    """
    mixer, window = _focal(layer), _focal(layer).window_size
    rows, cols = (-(-side // window) for side in layer.hw)
    W = rows * cols
    # Each key's value names what it is: which window it lies in, or its level.
    counts = [window ** 2] * W + [W * 4 ** level for level in range(len(mixer.pools))] + [layer.prefix]
    kinds = torch.arange(len(counts)).repeat_interleave(torch.tensor(counts))
    values = F.one_hot(kinds, len(counts)).to(layer.x).repeat(1, mixer.num_heads)[None]
    with torch.no_grad():
        q, k, _, maps = mixer.projections(layer.x, layer.hw)
        y_1NC = mixer.attend(q, k, values, maps)
    given = y_1NC[0, layer.prefix:].unflatten(1, (mixer.num_heads, -1)).transpose(0, 1).double()  # (h, N, kinds)
    own = given.gather(2, _windows(layer, (rows, cols)).expand(mixer.num_heads, -1)[..., None])[..., 0]
    found = {'window': own.mean(1), 'neighbours': (given[..., :W].sum(-1) - own).mean(1)}
    names = [f'pooled {level + 1}' for level in range(len(mixer.pools))] + ['prefix'] * bool(layer.prefix)
    return {**found, **{name: given[..., W + number].mean(1) for number, name in enumerate(names)}}


def pooled_biases(layer: AttentionLayer) -> list[Tensor]:
    """For each level the learned bias of the pooled tokens around a window, mean over its queries, `(h, side, side)`.

    Raises:
        ValueError: the layer is no focal attention.
    """
    found = [bias().detach().mean(1) for bias in _focal(layer).pooled_bias]
    return [bias.unflatten(1, (round(bias.shape[1] ** .5), -1)) for bias in found]


def is_focal(layer: AttentionLayer) -> bool:
    """Whether the layer is a focal attention."""
    return isinstance(layer.module, FocalAttention)


def _focal(layer: AttentionLayer) -> FocalAttention:
    if not isinstance(layer.module, FocalAttention):
        raise ValueError(f'layer {layer.name} ({layer.kind}) is no FocalAttention')
    return layer.module


def _windows(layer: AttentionLayer, grid: tuple[int, int]) -> Tensor:
    """The window of every query of the map, `(N,)`."""
    mixer = _focal(layer)
    y, x = (torch.arange(number, device=layer.x.device).repeat_interleave(mixer.window_size) for number in grid)
    numbers = (y[:, None] * grid[1] + x)[None, :, :, None]
    return roll_and_crop(numbers, layer.hw, mixer.distances).flatten()

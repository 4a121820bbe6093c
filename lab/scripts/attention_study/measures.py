"""Measures of an attention layer that the papers plot, as plain numbers, averaged over its
heads.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from mmflatten.explain.attention import (
    AttentionLayer,
    effective_rank,
    entropy,
    rank,
    singular_values,
)
from mmflatten.explain.attention.statistics import CHUNK, head_statistics, normalised, spread

SHARES = [round(number / 20, 2) for number in range(21)]  # of the keys
POWERS = (1, 2, 3, 4, 6)
SHARE = 0.01  # of the largest singular value


def ranks(layer: AttentionLayer) -> dict:
    """Rank, values above `SHARE` and effective rank, without and with the depthwise convolution of
    the values.

    The rank has the tolerance of `torch.linalg.matrix_rank`. Source: FLatten Transformer, Figure 5.
    """
    found: dict[str, Any] = dict(largest=min(layer.num_queries, layer.num_keys))
    for part in ('attention', 'both') if layer.local else ('attention',):
        values = singular_values(layer, part)
        longest = max(layer.num_queries, layer.num_keys)
        found[part] = dict(
            rank=rank(values, longest=longest).double().mean().item(),
            share_rank=rank(values, SHARE).double().mean().item(),
            effective_rank=effective_rank(values).mean().item(),
        )
    return found


@torch.no_grad()
def after_concentration(
    model: nn.Module, layer: AttentionLayer, matrix_NM: Tensor
) -> Tensor | None:
    """Matrix behind the local concentration module that follows a layer; None if there is none.

    Each column is a map of values, one for each query, which goes through the module in all
    channels; the result is the mean over the channels without the module's response to zeros. The
    norm before the module is left out. Source: L2ViT, eq. 5 and Figure 2.
    """
    # of L2ViT's blocks
    branch = getattr(model.get_submodule(layer.name.rpartition('.attn')[0]), 'lcm', None)
    module = getattr(layer.module, 'lcm', None) or getattr(branch, 'fn', None)
    if module is None:
        return None
    columns = matrix_NM.T[..., None].expand(-1, -1, module.conv1.in_channels)
    zeros = module(torch.zeros_like(columns[:1]), layer.hw)
    parts = []
    for part in columns.split(CHUNK):
        parts.append((module(part, layer.hw) - zeros).mean(-1))
    return torch.cat(parts).T


def concentration(layer: AttentionLayer, number: int = 64) -> dict:
    """Compute the entropy of the weights and their mean distance in tokens, and the same for equal
    weights.

    Means over `number` queries spread evenly over the map. Source: L2ViT, sec. 4.2.
    """
    heads = head_statistics(layer, number)
    return dict(
        entropy=entropy(layer, number).mean().item(),
        uniform_entropy=math.log(layer.num_keys),
        distance=float(np.mean([head['distance'] for head in heads])),
        uniform_distance=float(np.mean([head['uniform_distance'] for head in heads])),
    )


def distribution(layer: AttentionLayer, number: int = 64) -> dict:
    """Compute the fraction of the weight on the heaviest keys, for each fraction of the keys in
    `SHARES`.

    Equal weights give `SHARES` itself. A query whose weights are all zero counts as zeros, so the
    last value may be below 1. Source: FLatten Transformer, Figure 3, which shows maps.
    """
    held = np.zeros(layer.num_keys + 1)
    queries = spread(layer, number)
    for chunk in queries.split(CHUNK):
        weights = normalised(layer.rows(chunk.tolist()).cpu().double())
        weights = weights.sort(-1, descending=True).values
        held[1:] += weights.cumsum(-1).mean(1).sum(0).numpy() / len(queries)
    return dict(held=np.interp(SHARES, np.linspace(0, 1, len(held)), held).tolist())


def focusing(layer: AttentionLayer, powers: Sequence[float] = POWERS, number: int = 64) -> dict:
    """Compute the entropy of the weights for other powers of the focused function of a trained
    layer.

    Power 1 does not change directions. Source: FLatten Transformer, Figure 4, an example of four
    keys.

    Raises:
        ValueError: the layer has no focused function.
    """
    if not has_focus(layer):
        raise ValueError(f'layer {layer.name}: expected a focused function, got {layer.kind}.')
    other = AttentionLayer(layer.name, copy.deepcopy(layer.module), layer.x, layer.hw)
    found = []
    for power in powers:
        for mixer in other.mixers:
            mixer.focusing_factor = power
        found.append(entropy(other, number).mean().item())
    return dict(
        powers=list(powers),
        entropy=found,
        uniform_entropy=math.log(layer.num_keys),
        trained=layer.mixers[0].focusing_factor,
    )


def has_focus(layer: AttentionLayer) -> bool:
    """Return True if every mixer of the layer has a focused function."""
    return all(getattr(mixer, 'focusing_factor', None) for mixer in layer.mixers)


def mean(records: Sequence[Any], statistic: Callable = np.mean) -> Any:
    """Average the records of several images: numbers are averaged, also in lists and dicts; strings
    stay.

    Args:
        statistic: of the images, in place of the mean.
    """
    first = records[0]
    if isinstance(first, dict):
        averages = {}
        for key in first:
            averages[key] = mean([record[key] for record in records], statistic)
        return averages
    if isinstance(first, list):
        return [mean(values, statistic) for values in zip(*records, strict=True)]
    if isinstance(first, str):
        return first
    # The mean of equal numbers is the number itself, without a rounding error and as an integer.
    if statistic is np.mean and all(record == first for record in records):
        return first
    return float(statistic(records))


def mean_and_spread(records: Sequence[dict]) -> dict:
    """Average the records of several images, with their standard deviation as `spread`."""
    return dict(mean(records), spread=mean(records, np.std))

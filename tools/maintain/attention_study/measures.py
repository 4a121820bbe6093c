"""What the papers plot of a layer, as plain numbers: means over its heads."""
from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from mmflatten.explain.attention import AttentionLayer, effective_rank, entropy, rank, singular_values
from mmflatten.explain.attention.statistics import CHUNK, head_statistics, normalised, spread

SHARES = [round(number / 20, 2) for number in range(21)]  # of the keys
POWERS = (1, 2, 3, 4, 6)


def ranks(layer: AttentionLayer) -> dict:
    """Rank above `statistics.THRESHOLD` and effective rank, without and with the depthwise convolution of the values.

    Source: FLatten Transformer, Figure 5.
    """
    found: dict[str, Any] = dict(largest=min(layer.num_queries, layer.num_keys))
    for part in ('attention', 'both') if layer.local else ('attention',):
        values = singular_values(layer, part)
        found[part] = dict(rank=rank(values).double().mean().item(),
                           effective_rank=effective_rank(values).mean().item())
    return found


def concentration(layer: AttentionLayer, number: int = 64) -> dict:
    """Entropy of a query's weights and their mean distance, beside those of equal weights. Source: L2ViT, sec. 4.2.

    Over `number` queries spread evenly over the map; distances in its tokens.
    """
    heads = head_statistics(layer, number)
    return dict(entropy=entropy(layer, number).mean().item(), uniform_entropy=math.log(layer.num_keys),
                distance=float(np.mean([head['distance'] for head in heads])),
                uniform_distance=float(np.mean([head['uniform_distance'] for head in heads])))


def distribution(layer: AttentionLayer, number: int = 64) -> dict:
    """How much of its weight a query gives to the keys it weighs most: for each of `SHARES` of the keys the weight.

    Equal weights give the shares themselves; a query that attends nothing counts with zeros, so that the last value may
    be below 1. Source: FLatten Transformer, Figure 3, which shows maps.
    """
    held = np.zeros(layer.num_keys + 1)
    queries = spread(layer, number)
    for chunk in queries.split(CHUNK):
        weights = normalised(layer.rows(chunk.tolist()).cpu().double()).sort(-1, descending=True).values
        held[1:] += weights.cumsum(-1).mean(1).sum(0).numpy() / len(queries)
    return dict(held=np.interp(SHARES, np.linspace(0, 1, len(held)), held).tolist())


def focusing(layer: AttentionLayer, powers: Sequence[float] = POWERS, number: int = 64) -> dict:
    """Entropy of the weights for other powers of the focused function, queries and keys of the trained layer.

    Power 1 leaves directions as they are. Source: FLatten Transformer, Figure 4, an example of four keys.

    Raises:
        ValueError: the layer has no focused function.
    """
    if not has_focus(layer):
        raise ValueError(f'layer {layer.name} ({layer.kind}) has no focused function')
    other = AttentionLayer(layer.name, copy.deepcopy(layer.module), layer.x, layer.hw)
    found = []
    for power in powers:
        for mixer in other.mixers:
            mixer.focusing_factor = power
        found.append(entropy(other, number).mean().item())
    return dict(powers=list(powers), entropy=found, uniform_entropy=math.log(layer.num_keys),
                trained=layer.mixers[0].focusing_factor)


def has_focus(layer: AttentionLayer) -> bool:
    """Whether a focused function is in all of its mixers."""
    return all(getattr(mixer, 'focusing_factor', None) for mixer in layer.mixers)


def mean(found: Sequence[Any]) -> Any:
    """Of the same measure on several images: numbers are averaged, in lists and tables too, and words stay."""
    first = found[0]
    if isinstance(first, dict):
        return {key: mean([each[key] for each in found]) for key in first}
    if isinstance(first, list):
        return [mean(values) for values in zip(*found, strict=True)]
    return first if isinstance(first, str) or all(each == first for each in found) else float(np.mean(found))

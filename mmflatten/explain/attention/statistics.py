"""What the weights of a layer are like: sums of rows, negative mass, locality."""
from __future__ import annotations

from dataclasses import asdict, dataclass

import torch
from torch import Tensor

from mmflatten.explain.attention.layer import CHUNK, AttentionLayer
from mmflatten.text_table import align

HEADER = ('no.', 'layer', 'attention', 'heads', 'map', 'keys', 'row sum', 'no token', 'negative', 'distance', 'uniform',
          'prefix', 'besides')


@dataclass(frozen=True)
class HeadStatistics:
    """Of one head, over the queries that were looked at.

    Attributes:
        row_sum, row_sum_min, row_sum_max: of the weights of all tokens.
        no_token: mean of the weight that falls on no token of the map but on padding that windows attend; in focal
            attention also what its learned pooling takes away or, if negative, adds.
        negative: share of negative weights in the sum of all weights' sizes.
        distance: mean distance from the query, in its tokens, weighted by the size of the weights; prefix tokens have
            none.
        uniform_distance: what `distance` would be if all weights were equal.
        prefix: share of the prefix tokens (a class token) in the sum of all weights' sizes.
    """

    row_sum: float
    row_sum_min: float
    row_sum_max: float
    no_token: float
    negative: float
    distance: float
    uniform_distance: float
    prefix: float


def head_statistics(layer: AttentionLayer, number: int = 64) -> list[HeadStatistics]:
    """Statistics of every head over `number` queries, evenly spread over the map; all of them if there are fewer."""
    queries = spread(layer, number)
    totals = layer.totals().double()[:, queries.to(layer.x.device)].cpu()
    sums = []
    for chunk in queries.split(CHUNK):
        weights = layer.rows(chunk.tolist()).double().cpu()
        size = weights.abs()
        away = distances(layer, chunk)[:, None]
        sums.append(torch.stack((
            weights.sum(-1), size.sum(-1), (-weights).clamp(min=0).sum(-1),
            (size[..., layer.prefix:] * away).sum(-1), size[..., layer.prefix:].sum(-1),
            away.mean(-1).expand(weights.shape[:2]))))
    row_sum, size, negative, moment, on_map, uniform = torch.cat(sums, dim=1).transpose(1, 2)  # each (h, Q)
    tiny = torch.finfo(size.dtype).tiny
    columns = (row_sum.mean(1), row_sum.amin(1), row_sum.amax(1), (totals - row_sum).mean(1),
               negative.sum(1) / size.sum(1).clamp(min=tiny), moment.sum(1) / on_map.sum(1).clamp(min=tiny),
               uniform.mean(1), 1 - on_map.sum(1) / size.sum(1).clamp(min=tiny))
    return [HeadStatistics(*values) for values in torch.stack(columns, dim=1).tolist()]


def spread(layer: AttentionLayer, number: int) -> Tensor:
    """At most `number` queries `(Q,)`, evenly spread over the map; prefix tokens are none of them."""
    tokens = layer.hw[0] * layer.hw[1]
    return torch.linspace(0, tokens - 1, min(number, tokens)).round().long() + layer.prefix


def distances(layer: AttentionLayer, queries: Tensor) -> Tensor:
    """From the centres of queries on the map to those of all keys on the map, in tokens of the query, `(Q, M)`."""
    (H, W), (h, w) = layer.hw, layer.kv_hw
    place = queries - layer.prefix
    y, x = (torch.arange(side, dtype=torch.float64) + .5 for side in (h, w))
    rows = (place // W + .5)[:, None] - (y * H / h).repeat_interleave(w)
    cols = (place % W + .5)[:, None] - (x * W / w).repeat(h)
    return torch.hypot(rows, cols)


def describe(layer: AttentionLayer, heads: list[HeadStatistics]) -> dict:
    """All of it as JSON takes it."""
    return dict(layer=layer.name, attention=layer.kind, num_heads=layer.num_heads, map=list(layer.hw),
                keys=list(layer.kv_hw), prefix=layer.prefix, besides=layer.local,
                heads=[asdict(head) for head in heads])


def table(described: list[dict]) -> str:
    """A line for each layer: means over the heads, of the row sums the range."""
    rows = []
    for layer in described:
        heads = layer['heads']

        def mean(name: str, heads: list[dict] = heads) -> str:
            return _number(sum(head[name] for head in heads) / len(heads))

        low, high = min(head['row_sum_min'] for head in heads), max(head['row_sum_max'] for head in heads)
        means = [mean(name) for name in ('no_token', 'negative', 'distance', 'uniform_distance', 'prefix')]
        rows.append((str(layer['number']), layer['layer'], layer['attention'], str(layer['num_heads']),
                     _size(layer['map']), _size(layer['keys']), f'{_number(low)} to {_number(high)}', *means,
                     ', '.join(layer['besides']) or '-'))
    return align(rows, HEADER, left=(1, 2, 12))


def _size(size: list[int]) -> str:
    return f'{size[0]} x {size[1]}'


def _number(value: float) -> str:
    return f'{round(value, 3) + 0.:.3f}'  # -0 + 0 is 0

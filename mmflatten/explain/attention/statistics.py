"""Statistics of attention weights: row sums, negative weights, locality."""
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
    """Statistics of one head over a sample of queries.

    Attributes:
        row_sum, row_sum_min, row_sum_max: mean, minimum and maximum of the sum of a query's weights over all tokens.
        no_token: mean weight that is not on a token of the map but on the padding of windows. In focal attention it
            also includes the weight that the learned pooling removes or, if negative, adds.
        negative: fraction of negative weights in the sum of absolute weights.
        distance: mean distance from the query in query tokens, weighted by absolute weights, without prefix tokens.
        uniform_distance: `distance` for equal weights.
        prefix: fraction of the prefix tokens, such as a class token, in the sum of absolute weights.
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
    """Compute the statistics of each head over at most `number` evenly spaced queries of the map."""
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
    """Return at most `number` evenly spaced queries `(Q,)` of the map, without prefix tokens."""
    tokens = layer.hw[0] * layer.hw[1]
    return torch.linspace(0, tokens - 1, min(number, tokens)).round().long() + layer.prefix


def distances(layer: AttentionLayer, queries: Tensor) -> Tensor:
    """Compute distances between the centres of queries and of all keys of the map, in query tokens, `(Q, M)`."""
    (H, W), (h, w) = layer.hw, layer.kv_hw
    place = queries - layer.prefix
    y, x = (torch.arange(side, dtype=torch.float64) + .5 for side in (h, w))
    rows = (place // W + .5)[:, None] - (y * H / h).repeat_interleave(w)
    cols = (place % W + .5)[:, None] - (x * W / w).repeat(h)
    return torch.hypot(rows, cols)


def describe(layer: AttentionLayer, heads: list[HeadStatistics]) -> dict:
    """Return a layer and its statistics in a form that JSON can store."""
    return dict(layer=layer.name, attention=layer.kind, num_heads=layer.num_heads, map=list(layer.hw),
                keys=list(layer.kv_hw), prefix=layer.prefix, besides=layer.local,
                heads=[asdict(head) for head in heads])


def table(described: list[dict]) -> str:
    """Format one line per layer: means over the heads, and the range of the row sums."""
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

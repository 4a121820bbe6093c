"""Statistics of attention weights: row sums, negative weights, locality, rank and entropy."""

import torch
from torch import Tensor

from mmflatten.explain.attention.layer import CHUNK, AttentionLayer
from mmflatten.text import align

MAX_TOKENS = 2048  # a larger matrix needs minutes for its singular values
HEADER = (
    'no.',
    'layer',
    'attention',
    'heads',
    'map',
    'keys',
    'row sum',
    'negative',
    'distance',
    'uniform',
    'prefix',
    'entropy',
    'effective rank',
    'besides',
)
# Statistics of heads whose means are in the table, in the order of `HEADER`.
MEANS = ('negative', 'distance', 'uniform_distance', 'prefix', 'entropy', 'effective_rank')


def head_statistics(layer: AttentionLayer, number: int = 64) -> list[dict[str, float]]:
    """Compute the statistics of each head over at most `number` evenly spaced queries of the map.

    - `row_sum`, `row_sum_min`, `row_sum_max`: mean, minimum and maximum of the sum of a query's
      weights.
    - `negative`, `prefix`: fractions of negative weights and of prefix tokens in the sum of
      absolute weights.
    - `distance`: mean distance from the query in query tokens, weighted by absolute weights,
      without prefix tokens.
    - `uniform_distance`: `distance` for equal weights.
    """
    chunks = spread(layer, number).split(CHUNK)
    sums = torch.cat([_sums(layer, chunk) for chunk in chunks], dim=1)
    # each (h, Q)
    row_sum, size, negative, moment, on_map, uniform = sums.transpose(1, 2)
    tiny = torch.finfo(size.dtype).tiny
    columns = dict(
        row_sum=row_sum.mean(1),
        row_sum_min=row_sum.amin(1),
        row_sum_max=row_sum.amax(1),
        negative=negative.sum(1) / size.sum(1).clamp(min=tiny),
        distance=moment.sum(1) / on_map.sum(1).clamp(min=tiny),
        uniform_distance=uniform.mean(1),
        prefix=1 - on_map.sum(1) / size.sum(1).clamp(min=tiny),
    )
    return [
        {name: float(column[head]) for name, column in columns.items()}
        for head in range(layer.num_heads)
    ]


def _sums(layer: AttentionLayer, queries: Tensor) -> Tensor:
    """Compute six sums over the weights of each query, `(6, Q, h)`."""
    weights = layer.rows(queries.tolist()).double().cpu()
    size = weights.abs()
    size_on_map = size[..., layer.prefix :]
    distance = _distances(layer, queries)[:, None]
    sums = (
        weights.sum(-1),
        size.sum(-1),
        (-weights).clamp(min=0).sum(-1),
        (size_on_map * distance).sum(-1),
        size_on_map.sum(-1),
        distance.mean(-1).expand(weights.shape[:2]),
    )
    return torch.stack(sums)


def spread(layer: AttentionLayer, number: int) -> Tensor:
    """Return at most `number` evenly spaced queries `(Q,)` of the map, without prefix tokens."""
    tokens = layer.hw[0] * layer.hw[1]
    return torch.linspace(0, tokens - 1, min(number, tokens)).round().long() + layer.prefix


def _distances(layer: AttentionLayer, queries: Tensor) -> Tensor:
    """Compute the distances between queries and all keys of the map, `(Q, M)`.

    Distances are those between the centres, in query tokens.
    """
    H, W = layer.hw
    h, w = layer.kv_hw
    place = queries - layer.prefix
    y = torch.arange(h, dtype=torch.float64) + 0.5
    x = torch.arange(w, dtype=torch.float64) + 0.5
    rows = (place // W + 0.5)[:, None] - (y * H / h).repeat_interleave(w)
    cols = (place % W + 0.5)[:, None] - (x * W / w).repeat(h)
    return torch.hypot(rows, cols)


def singular_values(layer: AttentionLayer, part: str = 'attention') -> Tensor:
    """Compute the singular values of the `(N, M)` matrix of each head, `(h, min(N, M))`.

    They are in descending order, in float64 on the CPU. Prefix tokens are included. The matrix of a
    layer in windows has one block per window. `part` is that of `AttentionLayer.rows`; 'both' is
    the matrix of FLatten Transformer, eq. 11. Errors are those of `AttentionLayer.matrix`.
    """
    return torch.linalg.svdvals(layer.matrix(part=part).cpu().double())


def rank(values: Tensor, threshold: float | None = None, longest: int | None = None) -> Tensor:
    """Count the singular values `(h, n)` above `threshold` times the largest of their head, `(h,)`.

    The default is the tolerance of `torch.linalg.matrix_rank` in float32, for `longest` (default:
    n) rows or columns.
    """
    threshold = threshold or (longest or values.shape[-1]) * torch.finfo(torch.float32).eps
    return (values > threshold * values[:, :1]).sum(-1)


def effective_rank(values: Tensor) -> Tensor:
    """Compute the exponential of the entropy of normalised singular values `(h, n)`, `(h,)`.

    It is `n` for equal values, and 1 for a single nonzero value. Source: Roy and Vetterli, 2007,
    The effective rank.
    """
    return torch.special.entr(normalised(values)).sum(-1).exp()


def entropy(layer: AttentionLayer, number: int = 64) -> Tensor:
    """Compute the mean entropy of the weights of a query in nats, `(h,)`.

    It is 0 for a single key and `ln M` for equal weights of all `M` keys. Absolute weights are
    normalised to sum 1. A query without weights counts as 0. The mean is over `number` evenly
    spaced queries of the map.
    """
    entropies = []
    for chunk in spread(layer, number).split(CHUNK):
        weights = normalised(layer.rows(chunk.tolist()).cpu().double())
        entropies.append(torch.special.entr(weights).sum(-1))
    return torch.cat(entropies).mean(0)


def normalised(x: Tensor) -> Tensor:
    """Normalise absolute values to sum 1 along the last dimension. Zeros remain zeros."""
    return x.abs() / x.abs().sum(-1, keepdim=True).clamp(min=torch.finfo(x.dtype).tiny)


def describe(layer: AttentionLayer, number: int = 64) -> dict:
    """Return a layer and the statistics of its heads over `number` queries, as values for JSON.

    The effective rank is None for more than `MAX_TOKENS` queries or keys.
    """
    heads = head_statistics(layer, number)
    for head, value in zip(heads, entropy(layer, number).tolist()):
        head.update(entropy=value, effective_rank=None)
    if max(layer.num_queries, layer.num_keys) <= MAX_TOKENS:
        for head, value in zip(heads, effective_rank(singular_values(layer)).tolist()):
            head['effective_rank'] = value
    return dict(
        layer=layer.name,
        attention=layer.kind,
        num_heads=layer.num_heads,
        map=list(layer.hw),
        keys=list(layer.kv_hw),
        prefix=layer.prefix,
        besides=layer.local,
        heads=heads,
    )


def table(described: list[dict]) -> str:
    """Format one line per layer: means over the heads, and the range of the row sums."""
    return align([_row(layer) for layer in described], HEADER, left=(1, 2, 13))


def _row(layer: dict) -> list[str]:
    heads = layer['heads']
    low = min(head['row_sum_min'] for head in heads)
    high = max(head['row_sum_max'] for head in heads)
    return [
        str(layer['number']),
        layer['layer'],
        layer['attention'],
        str(layer['num_heads']),
        '{} x {}'.format(*layer['map']),
        '{} x {}'.format(*layer['keys']),
        f'{_number(low)} to {_number(high)}',
        *(_mean(heads, name) for name in MEANS),
        ', '.join(layer['besides']) or '-',
    ]


def _mean(heads: list[dict], name: str) -> str:
    """Format the mean of a statistic over the heads; '-' if it was not computed."""
    values = [head[name] for head in heads]
    return '-' if None in values else _number(sum(values) / len(values))


def _number(value: float) -> str:
    return f'{round(value, 3) + 0.0:.3f}'  # -0.0 + 0.0 is 0.0

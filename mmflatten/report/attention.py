"""Attention section of the page: weights of a grid of queries for the viewer, and statistics of each layer."""
from __future__ import annotations

import base64
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from mmflatten.explain.attention import AttentionLayer
from mmflatten.explain.attention.spectrum import effective_rank, entropy, rank, singular_values
from mmflatten.explain.attention.statistics import CHUNK, head_statistics
from mmflatten.explain.maps import probe_image
from mmflatten.predict.predictor import Image, Predictor
from mmflatten.report.charts import Chart
from mmflatten.report.collect import TrainedRun
from mmflatten.report.samples import encoder
from mmflatten.results.analysis import ResultTable
from mmflatten.results.figures import Lines

BUDGET = 4 * 2 ** 20  # bytes of all weights in JSON
MAX_SIDE = 24
MAX_HEADS = 32
MAX_RANK_TOKENS = 2048  # larger matrices need minutes for their singular values
HEADER = ('Layer', 'Attention', 'Heads', 'Matrix', 'Rank', 'Effective rank', 'Entropy', 'Distance', 'Uniform',
          'Row sum', 'Negative', 'No token')


def attention_section(runs: Sequence[TrainedRun], paths: Sequence[str]) -> dict[str, Any]:
    """Return the variables of the template for some test images; `attention` may be empty."""
    attention = []
    for run in runs if paths else ():
        data = run.predictor and run.attempt('attention', _read, run, paths, BUDGET // len(runs))
        if data:
            attention.append(dict(name=run.name, **data))
    return dict(attention=attention, attention_charts=_charts(attention),
                attention_tables=[_table(run) for run in attention])


def _read(run: TrainedRun, paths: Sequence[str], budget: int) -> dict:
    rights = {entry['img_path']: entry.get('right_path') for entry in run.results.entries} if run.results else {}
    images = [(path, rights[path]) if run.task.pairs else path for path in paths]
    return attention_data(run.predictor, images, [Path(path).name for path in paths], budget)


def attention_data(predictor: Predictor, images: Sequence[Image], names: Sequence[str], budget: int = BUDGET,
                   queries: int = 64) -> dict:
    """Return the attention weights of every layer for some images, and statistics of each layer, as data for JSON.

    On large maps, queries are sampled on a grid and keys are averaged over blocks. Both grids have about `side * side`
    cells with the largest `side`, at most `MAX_SIDE`, that fits into the budget.

    Args:
        budget: bytes of all weights in JSON.
        queries: number of queries for the statistics of a head.

    Returns:
        `images`, a list with `name`, `picture` (data URL), `size` (height and width) and `layers` (see `packed`), and
        `layers`, a list of statistics.

    Raises:
        PredictionError: an image cannot be read or used.
        ValueError: the prediction uses no attention.
    """
    probed = [probe_image(predictor, image) for image in images]
    side = _side([layer for probe, _ in probed for layer in probe.layers], budget)
    return dict(
        images=[dict(name=name, picture=encoder()(picture), size=picture.shape[:2],
                     layers=[packed(layer, side) for layer in probe.layers])
                for name, (probe, picture) in zip(names, probed)],
        layers=[_statistics(layers, queries) for layers in zip(*(probe.layers for probe, _ in probed))])


def packed(layer: AttentionLayer, side: int) -> dict[str, Any]:
    """Encode the weights of a grid of queries on a grid of keys for JSON.

    `heads` counts the mean over the heads, which is the first, and up to `MAX_HEADS` heads. `codes` (queries, heads,
    keys) are bytes from -127 to 127, and `rows` (queries, heads, 2) the scale and the sum of a query's weights. A
    weight is its code times scale / 127. Prefix tokens are the first queries and keys.
    """
    grid, keys = _shrunk(layer.hw, side), _shrunk(layer.kv_hw, side)
    stored, sums = [], []
    for chunk in torch.as_tensor(tokens_of(layer, grid)).split(CHUNK):
        rows = layer.rows(chunk.tolist()).float().cpu()
        rows = torch.cat((rows.mean(1, keepdim=True), rows[:, :MAX_HEADS]), dim=1)
        blocks = F.adaptive_avg_pool2d(layer.on_map(rows), keys)
        stored.append(torch.cat((rows[..., :layer.prefix], blocks.flatten(2)), dim=-1))
        sums.append(rows.sum(-1))
    weights = torch.cat(stored)
    scales = weights.abs().amax(-1)
    codes = 127 * weights / scales[..., None].clamp(min=torch.finfo(scales.dtype).tiny)
    return dict(name=_short(layer.name), kind=layer.kind, prefix=layer.prefix, keys=layer.kv_hw, grid=grid, stored=keys,
                heads=weights.shape[1], signed=bool((weights < 0).any()), codes=_text(codes.round().to(torch.int8)),
                rows=_text(torch.stack((scales, torch.cat(sums)), dim=-1)))


def _side(layers: Sequence[AttentionLayer], budget: int) -> int:
    """Return the largest side of the grids with which the layers fit into the budget."""
    def size(layer: AttentionLayer, cells: int) -> float:
        rows = (1 + min(layer.num_heads, MAX_HEADS)) * min(layer.num_queries, layer.prefix + cells)
        bytes_of_row = min(layer.num_keys, layer.prefix + cells) + 8  # codes, scale and sum
        return rows * bytes_of_row * 4 / 3  # base64

    return max((side for side in range(1, MAX_SIDE + 1)
                if sum(size(layer, side ** 2) for layer in layers) <= budget), default=1)


def tokens_of(layer: AttentionLayer, grid: tuple[int, int]) -> list[int]:
    """Return the indices of the prefix tokens and of the tokens at the centres of a grid's cells."""
    (H, W), (rows, cols) = layer.hw, grid
    return [*range(layer.prefix), *(layer.prefix + int((row + .5) * H / rows) * W + int((col + .5) * W / cols)
                                    for row in range(rows) for col in range(cols))]


def _shrunk(size: tuple[int, int], side: int) -> tuple[int, int]:
    """Return the largest grid of about the same aspect ratio with at most `side * side` cells."""
    scale = min(1., side / (size[0] * size[1]) ** .5)
    rows, cols = (max(1, int(length * scale + 1e-9)) for length in size)
    return rows, cols


def _short(name: str) -> str:
    return re.sub(r'^backbone\.|\.(attn\.)?fn$', '', name)


def _text(array: Tensor) -> str:
    return base64.b64encode(array.numpy().tobytes()).decode()


def _statistics(layers: Sequence[AttentionLayer], queries: int) -> dict:
    """Return means over images and heads, ranks on the first image, and the range of the row sums."""
    first, heads = layers[0], [asdict(head) for layer in layers for head in head_statistics(layer, queries)]
    statistics = {name: float(np.mean([head[name] for head in heads]))
                  for name in ('no_token', 'negative', 'distance', 'uniform_distance')}
    statistics.update(row_sum=[min(head['row_sum_min'] for head in heads), max(head['row_sum_max'] for head in heads)],
                      tokens=[first.num_queries, first.num_keys], rank=None, effective_rank=None,
                      entropy=float(np.mean([entropy(layer, queries).mean() / math.log(max(2, layer.num_keys))
                                             for layer in layers])))
    if max(statistics['tokens']) <= MAX_RANK_TOKENS:
        values = singular_values(first)
        statistics.update(rank=float(rank(values).double().mean()), effective_rank=float(effective_rank(values).mean()))
    return dict(name=_short(first.name), kind=first.kind, num_heads=first.num_heads, **statistics)


def _table(run: dict) -> ResultTable:
    rows = []
    for number, layer in enumerate(run['layers']):
        ranks = ['–' if layer[name] is None else f'{layer[name]:.1f}' for name in ('rank', 'effective_rank')]
        rows.append((
            f'{number} {layer["name"]}', layer['kind'], layer['num_heads'], '{} × {}'.format(*layer['tokens']), *ranks,
            layer['entropy'], layer['distance'], layer['uniform_distance'],
            '{:.3f} to {:.3f}'.format(*layer['row_sum']), layer['negative'],
            round(layer['no_token'], 3) + 0.))  # + 0 turns -0 into 0
    return ResultTable(f'Attention layers of {run["name"]}', HEADER, rows)


def _charts(runs: Sequence[dict]) -> list[Chart]:
    """Return charts of effective rank and entropy by layer, one line for each run."""
    def lines(value: Callable[[dict], float]) -> Lines:
        return Lines({run['name']: (range(len(run['layers'])), [value(layer) for layer in run['layers']])
                      for run in runs}, 'layer', (0, 1.05), markers=True)

    return [Chart('Effective rank, fraction of the tokens', lines(
                lambda layer: math.nan if layer['effective_rank'] is None
                else layer['effective_rank'] / min(layer['tokens']))),
            Chart('Entropy, fraction of that of uniform weights', lines(lambda layer: layer['entropy']))]

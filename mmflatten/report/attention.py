"""Attention section of the page: weights of a grid of queries for the viewer, and statistics of each layer."""
from __future__ import annotations

import base64
import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from mmflatten.explain.attention import AttentionLayer, effective_rank, entropy, rank, singular_values
from mmflatten.explain.attention.statistics import CHUNK, head_statistics
from mmflatten.explain.maps import probe_image
from mmflatten.predict.predictor import Image, Predictor
from mmflatten.report.charts import Chart
from mmflatten.report.collect import TrainedRun
from mmflatten.report.samples import data_url
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
    attention, layers = [], {}
    for run in runs if paths else ():
        if run.predictor is not None:
            images = run.attempt('attention', _images, run, paths)
            data = images and run.attempt('attention', attention_data, run.predictor, images, BUDGET // len(runs))
            if data:
                attention.append(dict(name=run.name, images=data[0]))
                layers[run.name] = data[1]
    titles = dict(rank_fraction='Effective rank, fraction of the tokens',
                  entropy='Entropy, fraction of that of uniform weights')
    charts = []
    for key, title in titles.items():
        lines = {name: (range(len(rows)), [row[key] for row in rows]) for name, rows in layers.items()}
        charts.append(Chart(title, Lines(lines, 'layer', limits=(0, 1.05), markers=True)))
    return dict(attention=attention, attention_charts=charts,
                attention_tables=[_table(name, rows) for name, rows in layers.items()])


def _images(run: TrainedRun, paths: Sequence[str]) -> dict[str, Image]:
    entries = {entry['img_path']: entry for entry in run.results.entries} if run.results else {}
    find = run.results.image if run.results else str
    return {path: (find(path), find(entries[path]['right_path'])) if run.task.pairs else find(path) for path in paths}


def attention_data(predictor: Predictor, images: Mapping[str, Image], budget: int = BUDGET,
                   queries: int = 64) -> tuple[list[dict], list[dict]]:
    """Return the attention weights of every layer for some images, as data for JSON, and statistics of each layer.

    Args:
        images: path of an image -> image.
        budget: bytes of all weights in JSON.
        queries: number of queries for the statistics of a head.

    Returns:
        Dictionaries with `name`, `picture` (data URL), `size` (height and width) and `layers` (see `packed`) of the
        images, and dictionaries of statistics. Errors are those of `probe_image`.
    """
    probed = [probe_image(predictor, image) for image in images.values()]
    side = _side([layer for probe, _ in probed for layer in probe.layers], budget)
    return [dict(name=Path(path).name, picture=data_url(picture), size=picture.shape[:2],
                 layers=[packed(layer, side) for layer in probe.layers])
            for path, (probe, picture) in zip(images, probed)], [
        _statistics(layers, queries) for layers in zip(*(probe.layers for probe, _ in probed))]


def packed(layer: AttentionLayer, side: int) -> dict[str, Any]:
    """Encode the weights of a layer for JSON, on large maps for a grid of queries, as means over blocks of keys.

    Both grids have at most `side * side` cells.
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
    return dict(name=_short(layer.name), kind=layer.kind, prefix=layer.prefix, map=layer.hw, keys=layer.kv_hw,
                grid=grid, stored=keys, heads=weights.shape[1], signed=bool((weights < 0).any()),
                codes=_text(codes.round().to(torch.int8)), rows=_text(torch.stack((scales, torch.cat(sums)), dim=-1)))


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


def _statistics(layers: Sequence[AttentionLayer], queries: int) -> dict[str, Any]:
    """Return means over images and heads, ranks on the first image, and the range of the row sums."""
    first, heads = layers[0], [head for layer in layers for head in head_statistics(layer, queries)]
    statistics = {name: float(np.mean([head[name] for head in heads]))
                  for name in ('no_token', 'negative', 'distance', 'uniform_distance')}
    entropies = [entropy(layer, queries).mean() / math.log(max(2, layer.num_keys)) for layer in layers]
    ranks = dict.fromkeys(('rank', 'effective_rank', 'rank_fraction'), math.nan)
    if max(first.num_queries, first.num_keys) <= MAX_RANK_TOKENS:
        values = singular_values(first)
        effective = float(effective_rank(values).mean())
        ranks = dict(rank=float(rank(values).double().mean()), effective_rank=effective,
                     rank_fraction=effective / min(first.num_queries, first.num_keys))
    return dict(
        name=_short(first.name), kind=first.kind, heads=first.num_heads, entropy=float(np.mean(entropies)),
        matrix=f'{first.num_queries} × {first.num_keys}', **statistics, **ranks,
        row_sum='{:.3f} to {:.3f}'.format(min(head['row_sum_min'] for head in heads),
                                          max(head['row_sum_max'] for head in heads)))


def _table(run: str, layers: Sequence[dict]) -> ResultTable:
    rows = []
    for number, layer in enumerate(layers):
        ranks = [None if math.isnan(layer[name]) else f'{layer[name]:.1f}' for name in ('rank', 'effective_rank')]
        rows.append((f'{number} {layer["name"]}', layer['kind'], layer['heads'], layer['matrix'], *ranks,
                     layer['entropy'], layer['distance'], layer['uniform_distance'], layer['row_sum'],
                     layer['negative'], round(layer['no_token'], 3) + 0.))  # + 0 turns -0 into 0
    return ResultTable(f'Attention layers of {run}', HEADER, rows)

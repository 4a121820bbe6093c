"""Data of the attention viewer: quantised rows for a grid of queries, and statistics of each layer."""
from __future__ import annotations

import base64
import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from mmflatten.explain.attention import AttentionLayer, effective_rank, entropy, rank, singular_values
from mmflatten.explain.attention.statistics import CHUNK, head_statistics
from mmflatten.explain.maps import probe_image
from mmflatten.predict.predictor import Image, Predictor
from mmflatten.report.images import encoder

BUDGET = 4 * 2 ** 20
MAX_SIDE = 24
MAX_HEADS = 32
MAX_RANK_TOKENS = 2048  # larger matrices need minutes for their singular values


def attention_data(predictor: Predictor, images: Sequence[Image], budget: int = BUDGET, queries: int = 64) -> dict:
    """Return the attention weights of every layer for some images, and statistics of each layer, as data for JSON.

    On large maps, queries are sampled on a grid and keys are averaged over blocks. Both grids have about `side * side`
    cells with the largest `side`, at most `MAX_SIDE`, that fits into the budget. Each layer stores the mean over its
    heads, followed by up to `MAX_HEADS` heads.

    Args:
        budget: bytes of pictures and weights in JSON.
        queries: number of queries for the statistics of a head.

    Returns:
        `images`, a list with `name`, `picture` (data URL), `size` (height and width) and `layers` (read by `unpack`),
        and `layers`, a list of statistics.

    Raises:
        PredictionError: an image cannot be read or used.
        ValueError: the budget is too small, or the prediction uses no attention.
    """
    probed = []
    for number, image in enumerate(images):
        probe, picture = probe_image(predictor, image)
        probed.append((_name(image, number), encoder()(picture), picture.shape[:2], probe.layers))
    all_layers = [layer for *_, layers in probed for layer in layers]
    side = _side(all_layers, budget, sum(len(picture) for _, picture, *_ in probed))
    return dict(
        images=[dict(name=name, picture=picture, size=list(size), layers=[packed(layer, side) for layer in layers])
                for name, picture, size, layers in probed],
        layers=[_statistics([layers[number] for *_, layers in probed], queries)
                for number in range(len(probed[0][-1]))])


def unpack(layer: dict) -> np.ndarray:
    """Decode the weights of a layer, `(queries, 1 + heads, keys)`; prefix tokens come first in queries and keys."""
    shape = (layer['prefix'] + layer['grid'][0] * layer['grid'][1], 1 + layer['heads'])
    codes = np.frombuffer(base64.b64decode(layer['weights']), np.uint8).reshape(*shape, -1).astype(np.float32)
    scales = np.frombuffer(base64.b64decode(layer['scales']), '<f4').reshape(*shape, 1)
    return (codes - 128) / 127 * scales if layer['signed'] else codes / 255 * scales


def tokens_of(layer: AttentionLayer, grid: tuple[int, int]) -> list[int]:
    """Return the indices of the prefix tokens and of the tokens at the centres of a grid's cells."""
    (H, W), (rows, cols) = layer.hw, grid
    return [*range(layer.prefix), *(layer.prefix + int((row + .5) * H / rows) * W + int((col + .5) * W / cols)
                                    for row in range(rows) for col in range(cols))]


def packed(layer: AttentionLayer, side: int) -> dict:
    """Encode the weights of a grid of queries on a grid of keys for JSON; `unpack` decodes them."""
    grid, keys = _shrunk(layer.hw, side), _shrunk(layer.kv_hw, side)
    stored, sums = [], []
    for chunk in torch.as_tensor(tokens_of(layer, grid)).split(CHUNK):
        weights = layer.rows(chunk.tolist()).float().cpu()
        weights = torch.cat((weights.mean(1, keepdim=True), weights[:, :MAX_HEADS]), dim=1)
        sums.append(weights.sum(-1).numpy())
        stored.append(_averaged(weights, layer, keys))
    weights = np.concatenate(stored)
    scales = np.abs(weights).max(-1).astype('<f4')
    shares = weights / np.maximum(scales, np.finfo(np.float32).tiny)[..., None]
    signed = bool((weights < 0).any())
    codes = shares * 127 + 128 if signed else shares * 255
    return dict(name=layer.name, kind=layer.kind, map=list(layer.hw), keys=list(layer.kv_hw), prefix=layer.prefix,
                num_heads=layer.num_heads, heads=weights.shape[1] - 1, grid=list(grid), stored=list(keys),
                signed=signed, weights=_text(codes.round().astype(np.uint8)), scales=_text(scales),
                sums=_text(np.concatenate(sums).astype('<f4')))


def _averaged(weights: Tensor, layer: AttentionLayer, keys: tuple[int, int]) -> np.ndarray:
    """Average weights `(Q, h, M)` over blocks of the key map, to `(Q, h, prefix + kh * kw)`."""
    maps = layer.on_map(weights).numpy()
    for axis, (size, new) in enumerate(zip(layer.kv_hw, keys), start=2):
        edges = np.arange(new) * size // new
        counts = np.diff(edges, append=size).reshape(-1, *[1] * (3 - axis))
        maps = np.add.reduceat(maps, edges, axis) / counts
    return np.concatenate((weights[..., :layer.prefix].numpy(), maps.reshape(*maps.shape[:2], -1)), axis=-1)


def _statistics(layers: list[AttentionLayer], queries: int) -> dict:
    """Return means over images and heads, ranks on the first image, and the range of the row sums."""
    first, heads = layers[0], [head for layer in layers for head in head_statistics(layer, queries)]
    statistics = {name: float(np.mean([head[name] for head in heads]))
             for name in ('no_token', 'negative', 'distance', 'uniform_distance', 'prefix')}
    statistics.update(row_sum=[min(head['row_sum_min'] for head in heads), max(head['row_sum_max'] for head in heads)],
                 tokens=[first.num_queries, first.num_keys], rank=None, effective_rank=None,
                 entropy=float(np.mean([entropy(layer, queries).mean() / math.log(max(2, layer.num_keys))
                                        for layer in layers])))
    if max(statistics['tokens']) <= MAX_RANK_TOKENS:
        values = singular_values(first)
        statistics.update(rank=float(rank(values).double().mean()), effective_rank=float(effective_rank(values).mean()))
    return dict(name=first.name, kind=first.kind, num_heads=first.num_heads, **statistics)


def _side(layers: list[AttentionLayer], budget: int, pictures: int) -> int:
    sizes = {side: sum(_packed_size(layer, side) for layer in layers) for side in range(1, MAX_SIDE + 1)}
    fitting = [side for side, size in sizes.items() if pictures + size <= budget]
    if not fitting:
        raise ValueError(f'budget: expected at least {pictures + sizes[1]} bytes for these images, got {budget}. Raise '
                         'it or use fewer images.')
    return max(fitting)


def _packed_size(layer: AttentionLayer, side: int) -> int:
    """Return the bytes of a layer's three arrays in base64."""
    rows = (layer.prefix + int(np.prod(_shrunk(layer.hw, side)))) * (1 + min(layer.num_heads, MAX_HEADS))
    arrays = (rows * (layer.prefix + int(np.prod(_shrunk(layer.kv_hw, side)))), 4 * rows, 4 * rows)
    return sum(-(-size // 3) * 4 for size in arrays)


def _shrunk(size: tuple[int, int], side: int) -> tuple[int, int]:
    """Return the largest grid of about the same aspect ratio with at most `side * side` cells."""
    scale = min(1., side / (size[0] * size[1]) ** .5)
    rows, cols = (max(1, int(length * scale + 1e-9)) for length in size)
    return rows, cols


def _name(image: Image, number: int) -> str:
    image = image[0] if isinstance(image, (list, tuple)) else image
    return f'image {number}' if isinstance(image, np.ndarray) else Path(image).name


def _text(array: np.ndarray) -> str:
    return base64.b64encode(np.ascontiguousarray(array).tobytes()).decode('ascii')

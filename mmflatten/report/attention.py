"""What the page's viewer shows of a model's attention: quantised rows for a grid of queries, and figures by layer."""
from __future__ import annotations

import base64
import math
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from mmflatten.explain.attention import AttentionLayer
from mmflatten.explain.attention.spectrum import effective_rank, entropy, rank, singular_values
from mmflatten.explain.attention.statistics import CHUNK, head_statistics
from mmflatten.explain.maps import probe_image
from mmflatten.predict.predictor import Image, Predictor
from mmflatten.report.images import encoder

BUDGET = 4 * 2 ** 20
MAX_SIDE = 24
MAX_HEADS = 32
MAX_RANK_TOKENS = 2048  # singular values of larger matrices take minutes


def attention_data(predictor: Predictor, images: Sequence[Image], budget: int = BUDGET, queries: int = 64) -> dict:
    """Weights of every layer on some images, as JSON takes them, and what each layer is like on their average.

    The queries are all tokens, or a grid of them where there are too many, and keys are averaged over blocks of the
    map likewise; both grids have about `side * side` places, and `side` is the largest with which everything fits
    into the budget, at most 24. Of a layer the mean over its heads stands first, then up to 32 heads.

    Args:
        budget: bytes that pictures and weights may take in JSON.
        queries: over which the statistics of a head are taken.

    Returns:
        `images`, a list with `name`, `picture` (a data URL), `size` (its height and width) and `layers`, which
        `unpack` reads; and `layers`, a list of their statistics.

    Raises:
        PredictionError: an image cannot be read or used.
        ValueError: the budget is too small, or the model has no attention, or its prediction does not reach it.
    """
    seen = []
    for number, image in enumerate(images):
        probe, picture = probe_image(predictor, image)
        seen.append((_name(image, number), encoder()(picture), picture.shape[:2], probe.layers))
    every = [layer for *_, layers in seen for layer in layers]
    side = _side(every, budget, sum(len(picture) for _, picture, *_ in seen))
    return dict(
        images=[dict(name=name, picture=picture, size=list(size), layers=[packed(layer, side) for layer in layers])
                for name, picture, size, layers in seen],
        layers=[_statistics([layers[number] for *_, layers in seen], queries) for number in range(len(seen[0][-1]))])


def unpack(layer: dict) -> np.ndarray:
    """The weights of a layer in the data, `(queries, 1 + heads, keys)`: prefix tokens first, on both sides."""
    shape = (layer['prefix'] + layer['grid'][0] * layer['grid'][1], 1 + layer['heads'])
    codes = np.frombuffer(base64.b64decode(layer['weights']), np.uint8).reshape(*shape, -1).astype(np.float32)
    scales = np.frombuffer(base64.b64decode(layer['scales']), '<f4').reshape(*shape, 1)
    return (codes - 128) / 127 * scales if layer['signed'] else codes / 255 * scales


def tokens_of(layer: AttentionLayer, grid: tuple[int, int]) -> list[int]:
    """The prefix tokens, then those of the map in which the centres of a grid's cells lie."""
    (H, W), (rows, cols) = layer.hw, grid
    return [*range(layer.prefix), *(layer.prefix + int((row + .5) * H / rows) * W + int((col + .5) * W / cols)
                                    for row in range(rows) for col in range(cols))]


def packed(layer: AttentionLayer, side: int) -> dict:
    """The weights of a grid of queries on a grid of keys, as JSON takes them; `unpack` reads it."""
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
    """Weights `(Q, h, M)` with the map of the keys averaged over blocks, `(Q, h, prefix + kh * kw)`."""
    maps = layer.on_map(weights).numpy()
    for axis, (size, new) in enumerate(zip(layer.kv_hw, keys), start=2):
        edges = np.arange(new) * size // new
        counts = np.diff(edges, append=size).reshape(-1, *[1] * (3 - axis))
        maps = np.add.reduceat(maps, edges, axis) / counts
    return np.concatenate((weights[..., :layer.prefix].numpy(), maps.reshape(*maps.shape[:2], -1)), axis=-1)


def _statistics(layers: list[AttentionLayer], queries: int) -> dict:
    """Means over images and heads, of rank on the first image; of the sums of rows the smallest and the largest."""
    first, heads = layers[0], [asdict(head) for layer in layers for head in head_statistics(layer, queries)]
    found = {name: float(np.mean([head[name] for head in heads]))
             for name in ('no_token', 'negative', 'distance', 'uniform_distance', 'prefix')}
    found.update(row_sum=[min(head['row_sum_min'] for head in heads), max(head['row_sum_max'] for head in heads)],
                 tokens=[first.num_queries, first.num_keys], rank=None, effective_rank=None,
                 entropy=float(np.mean([entropy(layer, queries).mean() / math.log(max(2, layer.num_keys))
                                        for layer in layers])))
    if max(found['tokens']) <= MAX_RANK_TOKENS:
        values = singular_values(first)
        found.update(rank=float(rank(values).double().mean()), effective_rank=float(effective_rank(values).mean()))
    return dict(name=first.name, kind=first.kind, num_heads=first.num_heads, **found)


def _side(layers: list[AttentionLayer], budget: int, pictures: int) -> int:
    sizes = {side: sum(_packed_size(layer, side) for layer in layers) for side in range(1, MAX_SIDE + 1)}
    fitting = [side for side, size in sizes.items() if pictures + size <= budget]
    if not fitting:
        raise ValueError(f'budget ({budget}) must be at least {pictures + sizes[1]} for the pictures and the smallest '
                         'maps of these images; raise it or take fewer')
    return max(fitting)


def _packed_size(layer: AttentionLayer, side: int) -> int:
    """Bytes of a layer's three arrays in base64."""
    rows = (layer.prefix + int(np.prod(_shrunk(layer.hw, side)))) * (1 + min(layer.num_heads, MAX_HEADS))
    arrays = (rows * (layer.prefix + int(np.prod(_shrunk(layer.kv_hw, side)))), 4 * rows, 4 * rows)
    return sum(-(-size // 3) * 4 for size in arrays)


def _shrunk(size: tuple[int, int], side: int) -> tuple[int, int]:
    """The largest grid of the same shape, but for rounding down, with at most `side * side` places."""
    scale = min(1., side / (size[0] * size[1]) ** .5)
    rows, cols = (max(1, int(length * scale + 1e-9)) for length in size)
    return rows, cols


def _name(image: Image, number: int) -> str:
    image = image[0] if isinstance(image, (list, tuple)) else image
    return f'image {number}' if isinstance(image, np.ndarray) else Path(image).name


def _text(array: np.ndarray) -> str:
    return base64.b64encode(np.ascontiguousarray(array).tobytes()).decode('ascii')

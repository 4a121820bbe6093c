"""Deformable attention over several maps, with sizes as numbers or symbols.

mmcv's modules take the sizes from a tensor, which fixes them in an exported graph. These functions
compute the same with the weights of the modules.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mmflatten.export.detection.boxes import limit

Sizes = Sequence[tuple[int, int]]  # (H, W) of each map


def attend(
    layer: nn.Module,
    query_BNC: Tensor,
    position: Tensor,
    value_BMC: Tensor,
    reference: Tensor,
    sizes: Sizes,
) -> Tensor:
    """Return `query + attention`, as mmcv's `MultiScaleDeformableAttention`.

    Source: Deformable DETR (arXiv:2010.04159), equation 3.

    Args:
        position: positional encoding that is added to the query, `(B or 1, N, C)`.
        value_BMC: tokens of all maps.
        reference: points `(B or 1, N, 2)` or boxes `(B or 1, N, 4)` (centre, width, height),
            relative to the image.
    """
    heads, levels, points = layer.num_heads, layer.num_levels, layer.num_points
    query = query_BNC + position
    offsets = layer.sampling_offsets(query).unflatten(-1, (heads, levels, points, 2))
    weights = layer.attention_weights(query).unflatten(-1, (heads, levels * points)).softmax(-1)
    value = layer.value_proj(value_BMC)
    value = value.unflatten(-1, (heads, value.shape[-1] // heads))

    reference = reference[:, :, None, None]
    sampled = []
    tokens = value.split([height * width for height, width in sizes], dim=1)
    for level, size in enumerate(sizes):
        offset = offsets[:, :, :, level]
        if reference.shape[-1] == 2:
            place = reference + offset / _width_height(size, value)
        else:
            place = reference[..., :2] + offset / points * reference[..., 2:] * 0.5
        sampled.append(_sample(tokens[level], place, size))

    # (B * heads, d, N, levels * points), and a weight for each sample.
    weights = weights.transpose(1, 2).flatten(0, 1)[:, None]
    mixed = (torch.cat(sampled, dim=-1) * weights).sum(-1)
    mixed = mixed.unflatten(0, (-1, heads)).flatten(1, 2).transpose(1, 2)
    return layer.output_proj(mixed) + query_BNC


def _sample(value_BMhd: Tensor, place_BNhp2: Tensor, size: tuple[int, int]) -> Tensor:
    """Sample a map bilinearly, 0 outside: `(B * heads, d, N, points)`."""
    maps = value_BMhd.permute(0, 2, 3, 1).flatten(0, 1).unflatten(-1, size)
    grid = (2 * place_BNhp2 - 1).transpose(1, 2).flatten(0, 1)
    return F.grid_sample(maps, grid, padding_mode='zeros', align_corners=False)


def encode(layers: nn.ModuleList, tokens_BNC: Tensor, position: Tensor, sizes: Sizes) -> Tensor:
    """Run the layers of mmdet's deformable encoder, whose tokens attend to those around them."""
    reference = centers(sizes, tokens_BNC)
    for layer in layers:
        tokens_BNC = attend(
            layer.self_attn,
            tokens_BNC,
            position,
            value_BMC=tokens_BNC,
            reference=reference,
            sizes=sizes,
        )
        tokens_BNC = layer.norms[0](tokens_BNC)
        tokens_BNC = layer.norms[1](layer.ffn(tokens_BNC))
    return tokens_BNC


def centers(sizes: Sizes, like: Tensor) -> Tensor:
    """Return the centre of each cell of all maps, relative to the image: `(1, N, 2)`."""
    points = []
    for height, width in sizes:
        x = (torch.arange(width, dtype=like.dtype) + 0.5) / limit(width, like)
        y = (torch.arange(height, dtype=like.dtype) + 0.5) / limit(height, like)
        points.append(torch.stack(torch.broadcast_tensors(x, y[:, None]), dim=-1).flatten(0, 1))
    return torch.cat(points)[None]


def flatten(maps: Sequence[Tensor]) -> Tensor:
    """Return the tokens of all maps `(B, C, H, W)`, level by level: `(B, N, C)`."""
    return torch.cat([x.flatten(2).transpose(1, 2) for x in maps], dim=1)


def _width_height(size: tuple[int, int], like: Tensor) -> Tensor:
    height, width = size
    return torch.stack((limit(width, like), limit(height, like)))

"""Focal Transformer against an explicit version 1 of the official model, which rolls and unfolds
maps.
"""

import itertools

import pytest
import torch
import torch.nn.functional as F

DIM, DEPTHS, HEADS = 24, (1, 2, 2, 1), (1, 2, 3, 6)


def offsets_bias(table, window, side):
    """Bias of a query at `(y, x)` of a window and a key at `(y', x')` of a square,
    `(heads, n, side ** 2)`.
    """
    steps = torch.arange(window)[:, None] - torch.arange(side) + side - 1
    index = steps[:, None, :, None] * (window + side - 1) + steps[None, :, None, :]
    return table[:, index].flatten(3).flatten(1, 2)


def shift_mask(windows, H, W, window, shift):
    region = torch.zeros(1, H, W, 1)
    bands = (slice(0, -window), slice(-window, -shift), slice(-shift, None))
    for number, (rows, cols) in enumerate(itertools.product(bands, bands)):
        region[:, rows, cols] = number
    region = windows[0](region, window, window)
    return torch.where(region == region.transpose(1, 2), 0.0, -100.0).double()


def neighbours(windows, x, window, expand):
    """Tokens that enter a window when the map is rolled along both diagonals."""
    parts = []
    for dy in (-expand, expand):
        for dx in (-expand, expand):
            new = torch.ones(window, window, dtype=torch.bool)
            new[
                slice(None, -expand) if dy < 0 else slice(expand, None),
                slice(None, -expand) if dx < 0 else slice(expand, None),
            ] = False
            parts.append(windows[0](x.roll((dy, dx), (1, 2)), window, window)[:, new.flatten()])
    return torch.cat(parts, dim=1)


def surroundings(x, level, region):
    """Pooled tokens around every window, `(B * nW, K, C)`, with zeros outside the map."""
    step = 2**level
    side = 2 * (region // 2) + 2 * step - 1
    C = x.shape[-1]
    unfolded = F.unfold(x.permute(0, 3, 1, 2), side, stride=step, padding=side // 2)
    unfolded = unfolded.unflatten(1, (C, side, side))[:, :, step - 1 :, step - 1 :]
    return unfolded.flatten(2, 3).permute(0, 3, 2, 1).flatten(0, 1)


def pooled(weights, name, x, window, level, windows):
    side = window // 2**level
    grid = [length // window * 2**level for length in x.shape[1:3]]
    top, left = ((length - number * side) // 2 for length, number in zip(x.shape[1:3], grid))
    x = x[:, top : top + grid[0] * side, left : left + grid[1] * side]
    parts = windows[0](x, side, side).transpose(1, 2)
    return weights.linear(name, parts, 1).view(x.shape[0], *grid, x.shape[-1])


def attention(weights, windows, block, x, heads, window, shift, expand, region, levels):
    B, H, W, C = x.shape
    name = f'{block}.attn'
    q, k, v = weights.linear(f'{name}.qkv', x, 3 * C).split(C, dim=-1)
    own = windows[0](q, window, window)
    keys, values = ([windows[0](part, window, window)] for part in (k, v))
    table = weights.weight(f'{name}.relative_position_bias_table', (2 * window - 1) ** 2, heads).t()
    bias = [offsets_bias(table, window, window).expand(len(own), -1, -1, -1)]
    if shift:
        bias[0] = bias[0] + shift_mask(windows, H, W, window, shift).repeat(B, 1, 1)[:, None]
    if expand:
        for parts, x_BHWC in ((keys, k), (values, v)):
            parts.append(neighbours(windows, x_BHWC, window, expand))
        table = weights.weight(
            f'{name}.relative_position_bias_table_to_neighbors',
            1,
            heads,
            window**2,
            keys[1].shape[1],
        )
        bias.append(table.expand(len(own), -1, -1, -1))
    for level in range(levels - 1):
        tokens = pooled(weights, f'{block}.pool_layers.{level}', x, window, level, windows)
        _, k, v = weights.linear(f'{name}.qkv', tokens, 3 * C).split(C, dim=-1)
        keys.append(surroundings(k, level, region))
        values.append(surroundings(v, level, region))
        side = region + 2**level - 1
        table = weights.weight(
            f'{name}.relative_position_bias_table_to_windows.{level}',
            heads,
            (window + side - 1) ** 2,
        )
        off_map = (
            surroundings(torch.ones_like(tokens[..., :1]), level, region)[:, None, None, :, 0] == 0
        )
        bias.append(offsets_bias(table, window, side) - 100.0 * off_map)
    out = weights.softmax_attention(
        own, torch.cat(keys, 1), torch.cat(values, 1), heads, torch.cat(bias, -1)
    )
    return windows[1](weights.linear(f'{name}.proj', out, C), window, window, H, W)


def official(windows, window=7, regions=(7, 5, 3, 1), levels=2, expand=3, shift=False, conv=False):
    def block_of(weights, block, x, i, j):
        H, W = x.shape[1:3]
        size, moved, reach = window, window // 2 if shift and j % 2 else 0, expand
        if min(H, W) <= window:
            size, moved, reach = min(H, W), 0, 0
        y = weights.layer_norm(f'{block}.norm1', x)
        y = F.pad(y, (0, 0, 0, -W % size, 0, -H % size)).roll((-moved, -moved), (1, 2))
        y = attention(weights, windows, block, y, HEADS[i], size, moved, reach, regions[i], levels)
        x = x + y.roll((moved, moved), (1, 2))[:, :H, :W]
        return x + weights.mlp(block, x)

    def forward(weights, x):
        for i in range(4):
            name = f'layers.{i - 1}.downsample' if i else 'patch_embed'
            kernel = (
                ((7, 4, 2), (3, 2, 1))[min(i, 1)] if conv else ((4, 4, 0), (2, 2, 0))[min(i, 1)]
            )
            x = weights.conv(f'{name}.proj', x, DIM * 2**i, *kernel).permute(0, 2, 3, 1)
            x = weights.layer_norm(f'{name}.norm', x)
            for j in range(DEPTHS[i]):
                x = block_of(weights, f'layers.{i}.blocks.{j}', x, i, j)
            x = x.permute(0, 3, 1, 2)
        return weights.head(weights.layer_norm('norm', x.permute(0, 2, 3, 1)).mean((1, 2)))

    return forward


@pytest.mark.parametrize(
    ('size', 'settings'),
    [
        ((128, 128), {}),
        ((192, 64), {}),
        ((160, 128), dict(conv=True)),
        ((128, 128), dict(window=4, shift=True)),
        ((64, 128), dict(levels=3)),
        ((128, 96), dict(levels=1)),
        ((128, 128), dict(window=8, levels=4)),
        ((160, 96), dict(window=5, expand=2, regions=(5, 5, 3, 3))),
        ((128, 96), dict(expand=0)),
        ((128, 160), dict(regions=(15, 13, 9, 7))),
    ],
)
def test_focal_matches_official_model(size, settings, assert_parity, windows):
    renamed = dict(
        window='window_size',
        regions='focal_windows',
        levels='focal_levels',
        expand='expand_size',
        shift='shift',
        conv='conv_embed',
    )
    backbone = dict(
        type='FocalTransformer',
        arch=dict(embed_dims=DIM, depths=DEPTHS, num_heads=HEADS),
        out_indices=(3,),
        **{renamed[key]: value for key, value in settings.items()},
    )
    assert_parity('focal', official(windows, **settings), backbone, size)

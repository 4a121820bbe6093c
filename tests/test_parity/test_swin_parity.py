"""FLatten-Swin and Swin against an explicit official model."""

import itertools

import pytest
import torch

DIM, DEPTHS, HEADS = 16, (2, 2, 3, 2), (1, 2, 4, 8)


def shift_bias(windows, H, W, window, shift):
    """Bias of -100 between tokens that are not neighbours before the roll, `(nW, 1, n, n)`."""
    region = torch.zeros(1, H, W, 1)
    bands = (slice(0, -window), slice(-window, -shift), slice(-shift, None))
    for number, (rows, cols) in enumerate(itertools.product(bands, bands)):
        region[:, rows, cols] = number
    region = windows[0](region, window, window)
    return torch.where(region == region.transpose(1, 2), 0.0, -100.0).double()[:, None]


def relative_bias(weights, name, window, heads):
    y, x = torch.arange(window**2) // window, torch.arange(window**2) % window
    index = (y[:, None] - y + window - 1) * (2 * window - 1) + x[:, None] - x + window - 1
    return weights.weight(f'{name}.relative_position_bias_table', (2 * window - 1) ** 2, heads)[
        index
    ].permute(2, 0, 1)


def attention(weights, windows, name, x_BHWC, heads, letter, window, shift, power, kernel, bias):
    B, H, W, C = x_BHWC.shape
    if min(H, W) <= window:
        window, shift = min(H, W), 0
    tokens = windows[0](x_BHWC.roll((-shift, -shift), (1, 2)), window, window)
    q, k, v = weights.linear(f'{name}.qkv', tokens, 3 * C, bias).split(C, dim=-1)
    if letter == 'L':  # no mask in shifted windows
        out = weights.focused_attention(name, q, k, v, heads, (window, window), power, kernel)
    else:
        logits = relative_bias(weights, name, window, heads)
        if shift:
            logits = logits + shift_bias(windows, H, W, window, shift).repeat(B, 1, 1, 1)
        out = weights.softmax_attention(q, k, v, heads, logits)
    out = windows[1](weights.linear(f'{name}.proj', out, C), window, window, H, W)
    return out.roll((shift, shift), (1, 2))


def official(
    windows, types='LLSS', linear_window=10**6, softmax_window=4, power=3, kernel=5, bias=True
):
    def forward(weights, image):
        x = weights.conv('patch_embed.proj', image, DIM, 4, 4).permute(0, 2, 3, 1)
        x = weights.layer_norm('patch_embed.norm', x)
        for i in range(4):
            C = DIM * 2**i
            if i:
                x = torch.cat(
                    [x[:, row::2, col::2] for row, col in ((0, 0), (1, 0), (0, 1), (1, 1))], dim=-1
                )
                name = f'layers.{i - 1}.downsample'
                x = weights.linear(
                    f'{name}.reduction', weights.layer_norm(f'{name}.norm', x), C, bias=False
                )
            for j in range(DEPTHS[i]):
                block = f'layers.{i}.blocks.{j}'
                letter = types[i]
                if letter == 'M':
                    letter = 'L' if j < int(types[4:]) else 'S'
                window = linear_window if letter == 'L' else softmax_window
                x = x + attention(
                    weights,
                    windows,
                    f'{block}.attn',
                    weights.layer_norm(f'{block}.norm1', x),
                    heads=HEADS[i],
                    letter=letter,
                    window=window,
                    shift=window // 2 if j % 2 else 0,
                    power=power,
                    kernel=kernel,
                    bias=bias,
                )
                x = x + weights.mlp(block, x)
        return weights.head(weights.layer_norm('norm', x).mean((1, 2)))

    return forward


@pytest.mark.parametrize(
    ('size', 'settings'),
    [
        ((128, 128), {}),
        ((224, 224), dict(softmax_window=7)),
        ((128, 128), dict(types='SSSS')),
        ((128, 256), dict(types='SSSS')),
        ((64, 128), dict(types='SSSS', softmax_window=8)),
        ((128, 128), dict(types='LLLL', linear_window=8)),
        ((64, 128), dict(types='LLLL', linear_window=4)),
        ((128, 256), dict(types='LLSS', linear_window=32)),
        ((128, 128), dict(types='MSLM1')),
        ((64, 64), dict(power=4, kernel=3, bias=False)),
    ],
)
def test_swin_matches_official_model(size, settings, assert_parity, windows):
    attention_cfg = dict(
        type='FocusedLinearAttention',
        focusing_factor=settings.get('power', 3),
        kernel_size=settings.get('kernel', 5),
    )
    backbone = dict(
        type='FLattenSwin',
        arch=dict(embed_dims=DIM, depths=DEPTHS, num_heads=HEADS),
        out_indices=(3,),
        attn_types=settings.get('types', 'LLSS'),
        linear_window=settings.get('linear_window'),
        softmax_window=settings.get('softmax_window', 4),
        qkv_bias=settings.get('bias', True),
        linear_attention=attention_cfg,
    )
    assert_parity('flatten_swin', official(windows, **settings), backbone, size)

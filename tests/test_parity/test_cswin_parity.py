"""FLatten-CSwin and CSwin against an explicit official model, for square images as in the official
code.
"""

import pytest
import torch

DIM, DEPTHS, HEADS = 16, (1, 2, 3, 1), (2, 2, 4, 8)


def branch(weights, windows, name, qkv, heads, h, w, linear, power, kernel):
    """Attention within windows of `h x w`, plus the depthwise convolution of the values within each
    window.
    """
    H, W = qkv[0].shape[1:3]
    q, k, v = (windows[0](x, h, w) for x in qkv)
    if linear:
        out = weights.focused_attention(name, q, k, v, heads, (h, w), power, kernel)
    else:
        out = weights.softmax_attention(q, k, v, heads)
    return windows[1](out + weights.depthwise(f'{name}.get_v', v, h, w, 3), h, w, H, W)


def attention(weights, windows, name, x, heads, split, last, linear, power, kernel, bias):
    H, W, C = x.shape[1:]
    qkv = weights.linear(f'{name}.qkv', x, 3 * C, bias).split(C, dim=-1)
    if last or split == H:
        out = branch(weights, windows, f'{name}.attns.0', qkv, heads, H, W, linear, power, kernel)
    else:
        halves = zip(*(part.split(C // 2, dim=-1) for part in qkv))
        out = torch.cat(
            [
                branch(
                    weights,
                    windows,
                    f'{name}.attns.{b}',
                    half,
                    heads // 2,
                    *size,
                    linear,
                    power,
                    kernel,
                )
                for b, (half, size) in enumerate(zip(halves, ((H, split), (split, W))))
            ],
            dim=-1,
        )
    return weights.linear(f'{name}.proj', out, C)


def official(
    windows,
    types='LLSS',
    softmax_split=(1, 2, 4, 4),
    linear_split=None,
    power=3,
    kernel=5,
    bias=True,
):
    def forward(weights, image):
        x = weights.conv('stage1_conv_embed.0', image, DIM, 7, 4, 2).permute(0, 2, 3, 1)
        x = weights.layer_norm('stage1_conv_embed.2', x)
        for i in range(4):
            if i:
                x = weights.conv(
                    f'merge{i}.conv', x.permute(0, 3, 1, 2), DIM * 2**i, 3, 2, 1
                ).permute(0, 2, 3, 1)
                x = weights.layer_norm(f'merge{i}.norm', x)
            for j in range(DEPTHS[i]):
                block = f'stage{i + 1}.{j}'
                linear = types[i] == 'L' or types[i] == 'M' and j < int(types[4:])
                split = (linear_split or [x.shape[1]] * 4)[i] if linear else softmax_split[i]
                x = x + attention(
                    weights,
                    windows,
                    block,
                    weights.layer_norm(f'{block}.norm1', x),
                    HEADS[i],
                    split,
                    i == 3,
                    linear,
                    power,
                    kernel,
                    bias,
                )
                x = x + weights.mlp(block, x)
        return weights.head(weights.layer_norm('norm', x).mean((1, 2)))

    return forward


@pytest.mark.parametrize(
    ('side', 'settings'),
    [
        (224, dict(softmax_split=(1, 2, 7, 7))),
        (128, {}),
        (128, dict(types='SSSS')),
        (128, dict(types='SSSS', softmax_split=(32, 16, 8, 4))),
        (128, dict(types='LLLL', linear_split=(4, 8, 4, 4))),
        (128, dict(types='SLMS2', softmax_split=(2, 4, 4, 4))),
        (64, dict(power=4, kernel=3, bias=False)),
    ],
)
def test_cswin_matches_official_model(side, settings, assert_parity, windows):
    attention_cfg = dict(
        type='FocusedLinearAttention',
        focusing_factor=settings.get('power', 3),
        kernel_size=settings.get('kernel', 5),
    )
    backbone = dict(
        type='FLattenCSwin',
        arch=dict(embed_dims=DIM, depths=DEPTHS, num_heads=HEADS),
        out_indices=(3,),
        attn_types=settings.get('types', 'LLSS'),
        linear_split=settings.get('linear_split'),
        softmax_split=settings.get('softmax_split', (1, 2, 4, 4)),
        qkv_bias=settings.get('bias', True),
        linear_attention=attention_cfg,
    )
    assert_parity('flatten_cswin', official(windows, **settings), backbone, (side, side))

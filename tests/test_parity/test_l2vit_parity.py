"""L2ViT against an explicit official model."""

import pytest
import torch.nn.functional as F

DIM, DEPTHS, HEADS = 24, (2, 2, 4, 2), (1, 2, 3, 6)


def stem(weights, image, kind):
    x = F.pad(image, (0, -image.shape[3] % 4, 0, -image.shape[2] % 4))
    name = 'downsample_layers.0.proj'
    if kind is True:
        x = weights.batch_norm(
            f'{name}.proj.1', weights.conv(f'{name}.proj.0', x, DIM // 2, 3, 2, 1)
        ).relu()
        x = weights.batch_norm(f'{name}.proj.4', weights.conv(f'{name}.proj.3', x, DIM, 3, 2, 1))
    elif kind == '4L':
        for index, (kernel, stride) in zip((0, 3, 6), ((7, 2), (3, 1), (3, 1))):
            x = weights.conv(
                f'{name}.proj.{index}', x, DIM // 2, kernel, stride, kernel // 2, bias=False
            )
            x = weights.batch_norm(f'{name}.proj.{index + 1}', x).relu()
        x = weights.conv(f'{name}.proj.9', x, DIM, 2, 2)
    else:
        x = weights.conv(name, x, DIM, *((7, 4, 3) if kind == 'overlapped' else (4, 4, 0)))
    return weights.layer_norm('downsample_layers.0.norm', x.permute(0, 2, 3, 1))


def downsample(weights, i, x_BHWC, overlapped):
    x = weights.layer_norm(f'downsample_layers.{i}.norm', x_BHWC).permute(0, 3, 1, 2)
    x = F.pad(x, (0, x.shape[3] % 2, 0, x.shape[2] % 2))
    x = weights.conv(
        f'downsample_layers.{i}.proj', x, DIM * 2**i, *((3, 2, 1) if overlapped else (2, 2, 0))
    )
    return x.permute(0, 2, 3, 1)


def encode(weights, name, x):
    H, W = x.shape[1:3]
    return x + weights.depthwise(f'{name}.proj', x.flatten(1, 2), H, W, 3).view(x.shape)


def window_attention(weights, windows, name, x, heads, window):
    B, H, W, C = x.shape
    x = F.pad(x, (0, 0, 0, -W % window, 0, -H % window))
    padded = x.shape[1:3]
    q, k, v = weights.linear(f'{name}.qkv', windows[0](x, window, window), 3 * C).split(C, dim=-1)
    out = weights.linear(f'{name}.proj', weights.softmax_attention(q, k, v, heads), C)
    return windows[1](out, window, window, *padded)[:, :H, :W]


def linear_attention(weights, name, x, heads, clamp):
    C = x.shape[-1]
    q, k, v = weights.linear(f'{name}.qkv', x.flatten(1, 2), 3 * C).split(C, dim=-1)
    q, k, v = (part.unflatten(-1, (heads, -1)).transpose(1, 2) for part in (q.relu(), k.relu(), v))
    scores = q @ k.transpose(-2, -1)
    out = (
        scores
        @ v
        * weights.weight(f'{name}.temperature', heads, 1, 1)
        / scores.sum(-1, keepdim=True).clamp(clamp)
    )
    return weights.linear(f'{name}.proj', out.transpose(1, 2).flatten(2), C).view(x.shape)


def concentrate(weights, name, x, kernel):
    H, W, C = x.shape[1:]
    x = F.gelu(weights.conv(f'{name}.conv1', x.permute(0, 3, 1, 2), C, kernel, 1, kernel // 2, C))
    x = weights.conv(
        f'{name}.conv2', weights.batch_norm(f'{name}.bn', x), C, kernel, 1, kernel // 2, C
    )
    return x.permute(0, 2, 3, 1)


def official(
    windows, window=7, kind=True, overlapped=False, kernel=7, clamp=100.0, projection=None
):
    def forward(weights, x):
        for i in range(4):
            x = downsample(weights, i, x, overlapped) if i else stem(weights, x, kind)
            for j in range(DEPTHS[i]):
                block = f'stages.{i}.{j}'
                x = encode(weights, f'{block}.cpe.0', x)
                y = weights.layer_norm(f'{block}.norm1', x)
                if j % 2:
                    x = x + linear_attention(weights, f'{block}.attn', y, HEADS[i], clamp)
                    x = x + concentrate(
                        weights,
                        f'{block}.local_mp',
                        weights.layer_norm(f'{block}.norm3', x),
                        kernel,
                    )
                else:
                    x = x + window_attention(weights, windows, f'{block}.attn', y, HEADS[i], window)
                    x = encode(weights, f'{block}.cpe.1', x)
                x = x + weights.mlp(block, x)
        x = weights.layer_norm('norm', x)
        if projection:
            x = weights.linear('last_proj', x, projection).relu()
        return weights.head(x.mean((1, 2)))

    return forward


@pytest.mark.parametrize(
    ('size', 'settings'),
    [
        ((128, 128), {}),
        ((200, 312), {}),
        ((65, 97), {}),
        ((33, 160), dict(overlapped=True, kind='4L')),
        ((96, 192), dict(window=12)),
        ((130, 97), dict(kind=False)),
        ((96, 64), dict(kind='overlapped', projection=40)),
        ((64, 96), dict(kernel=3, clamp=1.0)),
    ],
)
def test_l2vit_matches_official_model(size, settings, assert_parity, windows):
    backbone = dict(
        type='L2ViT',
        arch=dict(embed_dims=DIM, depths=DEPTHS, num_heads=HEADS),
        out_indices=(3,),
        window_size=settings.get('window', 7),
        conv_stem=settings.get('kind', True),
        overlapped_downsample=settings.get('overlapped', False),
        lcm_kernel=settings.get('kernel', 7),
        min_denominator=settings.get('clamp', 100.0),
        last_projection=settings.get('projection') or False,
    )
    assert_parity('l2vit', official(windows, **settings), backbone, size)

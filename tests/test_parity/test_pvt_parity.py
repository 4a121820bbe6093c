"""FLatten-PVT, FLatten-PVTv2, PVT and PVTv2 against explicit official models."""

import pytest
import torch
import torch.nn.functional as F

DIMS, DEPTHS, HEADS = (8, 16, 24, 32), (1, 2, 2, 1), (1, 2, 3, 4)


def attention(weights, name, x, H, W, heads, ratio, linear, power, kernel, bias):
    C, source = x.shape[-1], x
    if ratio > 1:
        image = x.transpose(1, 2).reshape(-1, C, H, W)
        source = weights.conv(f'{name}.sr', image, C, ratio, ratio).flatten(2).transpose(1, 2)
        source = weights.layer_norm(f'{name}.norm', source)
    q = weights.linear(f'{name}.q', x, C, bias)
    k, v = weights.linear(f'{name}.kv', source, 2 * C, bias).split(C, dim=-1)
    if linear:
        out = weights.focused_attention(name, q, k, v, heads, (H, W), power, kernel)
    else:
        out = weights.softmax_attention(q, k, v, heads)
    return weights.linear(f'{name}.proj', out, C)


def feed_forward(weights, block, x, H, W, ratio, version):
    hidden = weights.linear(
        f'{block}.mlp.fc1', weights.layer_norm(f'{block}.norm2', x, 1e-6), x.shape[-1] * ratio
    )
    if version == 2:
        hidden = weights.depthwise(f'{block}.mlp.dwconv.dwconv', hidden, H, W, 3)
    return weights.linear(f'{block}.mlp.fc2', F.gelu(hidden), x.shape[-1])


def embed(weights, i, x, version, grid, prefix=False):
    kernel, stride, padding = (
        ((7, 4, 3), (3, 2, 1))[min(i, 1)] if version == 2 else ((4, 4, 0), (2, 2, 0))[min(i, 1)]
    )
    x = weights.conv(f'patch_embed{i + 1}.proj', x, DIMS[i], kernel, stride, padding)
    H, W = x.shape[2:]
    x = weights.layer_norm(f'patch_embed{i + 1}.norm', x.flatten(2).transpose(1, 2))
    if version == 1:
        table = weights.weight(f'pos_embed{i + 1}', 1, grid[0] * grid[1] + prefix, DIMS[i])
        first, table = table[:, : int(prefix)], table[:, int(prefix) :]
        if grid != (H, W):
            table = table.view(1, *grid, DIMS[i]).permute(0, 3, 1, 2)
            table = F.interpolate(table, size=(H, W), mode='bilinear').flatten(2).transpose(1, 2)
        if prefix:
            x = torch.cat(
                (weights.weight('cls_token', 1, 1, DIMS[i]).expand(len(x), -1, -1), x), dim=1
            )
        x = x + torch.cat((first, table), dim=1)
    return x, H, W


def official(
    version,
    grids,
    types='LLLL',
    linear_ratios=(1, 1, 1, 1),
    ratios=(8, 4, 2, 1),
    mlp_ratios=(8, 8, 4, 4),
    power=3,
    kernel=5,
    bias=True,
    token=False,
):
    """Official model; with `token` that of PVT, where a class token joins the last stage."""

    def forward(weights, x):
        for i in range(4):
            x, H, W = embed(weights, i, x, version, grids[i], prefix=token and i == 3)
            for j in range(DEPTHS[i]):
                block = f'block{i + 1}.{j}'
                linear = types[i] == 'L' or types[i] == 'M' and j < int(types[4:])
                y = weights.layer_norm(f'{block}.norm1', x, 1e-6)
                x = x + attention(
                    weights,
                    f'{block}.attn',
                    y,
                    H,
                    W,
                    HEADS[i],
                    (linear_ratios if linear else ratios)[i],
                    linear,
                    power,
                    kernel,
                    bias,
                )
                x = x + feed_forward(weights, block, x, H, W, mlp_ratios[i], version)
            if version == 2:
                x = weights.layer_norm(f'norm{i + 1}', x, 1e-6)
            if token and i == 3:
                return weights.head(weights.layer_norm('norm', x, 1e-6)[:, 0])
            x = x.transpose(1, 2).reshape(-1, DIMS[i], H, W)
        if version == 1:
            # in the file, but unused
            weights.layer_norm('norm', x.flatten(2).transpose(1, 2), 1e-6)
        return weights.head(x.mean((2, 3)))

    return forward


@pytest.mark.parametrize('version', [1, 2])
@pytest.mark.parametrize(
    ('size', 'settings'),
    [
        ((128, 128), {}),
        ((96, 160), dict(types='LLSS')),
        ((128, 64), dict(types='SSSS')),
        ((128, 128), dict(types='SLMS1', ratios=(2, 2, 2, 2))),
        ((128, 192), dict(linear_ratios=(8, 4, 2, 1))),
        ((96, 96), dict(linear_ratios=(3, 2, 1, 1), types='LSLS')),
        ((64, 64), dict(power=4, kernel=3, mlp_ratios=(4, 4, 4, 4), bias=False)),
    ],
)
def test_pvt_matches_official_model(version, size, settings, assert_parity):
    _check(version, size, size, settings, assert_parity)


@pytest.mark.parametrize('version', [1, 2])
def test_pvt_resized_tables_match_official_model(version, assert_parity):
    _check(version, (256, 128), (128, 128), dict(types='SSSS'), assert_parity)


@pytest.mark.parametrize('size', [(128, 128), (256, 128)])
def test_pvt_with_class_token_matches_official_model(size, assert_parity):
    _check(1, size, (128, 128), dict(types='SSSS', token=True), assert_parity)


def _check(version, size, img_size, settings, assert_parity):
    torch.manual_seed(0)
    renamed = dict(
        types='attn_types',
        linear_ratios='linear_sr_ratios',
        ratios='sr_ratios',
        bias='qkv_bias',
        token='with_cls_token',
    )
    arguments = {renamed[key]: value for key, value in settings.items() if key in renamed}
    arch = dict(
        embed_dims=DIMS,
        depths=DEPTHS,
        num_heads=HEADS,
        mlp_ratios=settings.get('mlp_ratios', (8, 8, 4, 4)),
    )
    attention_cfg = dict(
        type='FocusedLinearAttention',
        focusing_factor=settings.get('power', 3),
        kernel_size=settings.get('kernel', 5),
    )
    grids = [(img_size[0] // 2 ** (i + 2), img_size[1] // 2 ** (i + 2)) for i in range(4)]
    backbone = dict(
        type='FLattenPVT' if version == 1 else 'FLattenPVTv2',
        arch=arch,
        img_size=img_size,
        out_indices=(3,),
        linear_attention=attention_cfg,
        **arguments,
    )
    family = 'flatten_pvt' if version == 1 else 'flatten_pvt_v2'
    if settings.get('token'):
        family = 'pvt'
    assert_parity(family, official(version, grids, **settings), backbone, size)

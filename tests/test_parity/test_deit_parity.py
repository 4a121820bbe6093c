"""DeiT as in timm, and FLatten-DeiT with the same names, against explicit models."""

import pytest
import torch

DIM, HEADS = 24, 3


def linear_attention(weights, name, q, k, v, map_size, power, kernel):
    """The class token takes part in the sums, but not in the positional encoding and the
    convolution.
    """
    H, W = map_size
    table = weights.weight(f'{name}.positional_encoding', 1, H * W, DIM)
    k = torch.cat((k[:, :1], k[:, 1:] + table), dim=1)
    scale = torch.nn.functional.softplus(weights.weight(f'{name}.scale', 1, 1, DIM))
    q, k = ((x.relu() + 1e-6) / scale for x in (q, k))
    q, k = (
        x**power / (x**power).norm(dim=-1, keepdim=True) * x.norm(dim=-1, keepdim=True)
        for x in (q, k)
    )
    q, k, values = (x.unflatten(-1, (HEADS, -1)).transpose(1, 2) for x in (q, k, v))
    scores = q @ k.transpose(-2, -1)
    out = (
        (scores @ values / k.shape[2] / (scores.mean(-1, keepdim=True) + 1e-6))
        .transpose(1, 2)
        .flatten(2)
    )
    d = DIM // HEADS
    image = v[:, 1:].transpose(1, 2).reshape(-1, d, H, W)
    local = weights.conv(f'{name}.dwc', image, d, kernel, 1, kernel // 2, d).reshape(-1, DIM, H * W)
    return torch.cat((out[:, :1], out[:, 1:] + local.transpose(1, 2)), dim=1)


def official(letters='SSS', patch=16, power=3, kernel=5):
    def forward(weights, image):
        x = weights.conv('patch_embed.proj', image, DIM, patch, patch)
        H, W = x.shape[2:]
        x = torch.cat(
            (
                weights.weight('cls_token', 1, 1, DIM).expand(2, 1, DIM),
                x.flatten(2).transpose(1, 2),
            ),
            dim=1,
        )
        x = x + weights.weight('pos_embed', 1, 1 + H * W, DIM)
        for i, letter in enumerate(letters):
            block = f'blocks.{i}'
            y = weights.layer_norm(f'{block}.norm1', x, 1e-6)
            q, k, v = weights.linear(f'{block}.attn.qkv', y, 3 * DIM).split(DIM, dim=-1)
            out = (
                weights.softmax_attention(q, k, v, HEADS)
                if letter == 'S'
                else linear_attention(weights, f'{block}.attn', q, k, v, (H, W), power, kernel)
            )
            x = x + weights.linear(f'{block}.attn.proj', out, DIM)
            x = x + weights.mlp(block, x, eps=1e-6)
        return weights.head(weights.layer_norm('norm', x, 1e-6)[:, 0])

    return forward


@pytest.mark.parametrize(
    ('size', 'settings'),
    [
        ((128, 128), {}),
        ((256, 128), {}),
        ((96, 160), dict(letters='LLL')),
        ((128, 128), dict(letters='LSLS')),
        ((64, 96), dict(letters='LL', patch=8, power=4, kernel=3)),
    ],
)
def test_deit_matches_explicit_model(size, settings, assert_parity):
    letters = settings.get('letters', 'SSS')
    attention_cfg = dict(
        type='FocusedLinearAttention',
        focusing_factor=settings.get('power', 3),
        kernel_size=settings.get('kernel', 5),
    )
    backbone = dict(
        type='FLattenDeiT',
        arch=dict(embed_dims=DIM, depth=len(letters), num_heads=HEADS),
        attn_types=letters,
        patch_size=settings.get('patch', 16),
        linear_attention=attention_cfg,
    )
    assert_parity('deit', official(**settings), backbone, size)

"""The two networks of PSMNet, with and without the attention module, against explicit official
models.
"""

import zlib

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from mmflatten.checkpoints import convert_state_dict
from mmflatten.registry import MODELS

C, DEPTHS, POOLS = 4, (1, 2, 1, 1), (8, 4, 2, 1)  # official: 32, (3, 16, 3, 3) and (64, 32, 16, 8)


class Weights(dict):
    """A state dict with official names that generates each weight on first use."""

    def draw(self, name: str, *shape: int) -> Tensor:
        if name not in self:
            value = torch.randn(
                shape,
                generator=torch.Generator().manual_seed(zlib.crc32(name.encode())),
                dtype=torch.float64,
            )
            if name.endswith('running_var') or (name.endswith('.weight') and len(shape) == 1):
                value = 0.5 + value.abs()
            else:
                value = value / value[0].numel() ** 0.5 if len(shape) > 1 else 0.2 * value
            self[name] = value
        return self[name]

    def bn(self, name: str, x: Tensor) -> Tensor:
        mean, var, weight, bias = (
            self.draw(f'{name}.{leaf}', x.shape[1])
            for leaf in ('running_mean', 'running_var', 'weight', 'bias')
        )
        self[f'{name}.num_batches_tracked'] = torch.tensor(1)
        return F.batch_norm(x, mean, var, weight, bias, eps=1e-5)

    def convbn(
        self, name: str, x: Tensor, out: int, kernel: int, stride: int = 1, dilation: int = 1
    ) -> Tensor:
        weight = self.draw(f'{name}.0.weight', out, x.shape[1], kernel, kernel)
        padding = 0 if kernel == 1 else dilation
        return self.bn(f'{name}.1', F.conv2d(x, weight, None, stride, padding, dilation))

    def convbn_3d(self, name: str, x: Tensor, out: int, stride: int = 1) -> Tensor:
        weight = self.draw(f'{name}.0.weight', out, x.shape[1], 3, 3, 3)
        return self.bn(f'{name}.1', F.conv3d(x, weight, None, stride, 1))

    def upconvbn(self, name: str, x: Tensor, out: int) -> Tensor:
        weight = self.draw(f'{name}.0.weight', x.shape[1], out, 3, 3, 3)
        return self.bn(f'{name}.1', F.conv_transpose3d(x, weight, None, 2, 1, 1))

    def conv(self, name: str, x: Tensor, out: int) -> Tensor:
        return F.conv2d(
            x, self.draw(f'{name}.weight', out, x.shape[1], 1, 1), self.draw(f'{name}.bias', out)
        )


def efficient_attention(
    W: Weights, x: Tensor, key_channels: int, value_channels: int, heads: int
) -> Tensor:
    keys, queries, values = (
        W.conv(name, x, channels).flatten(2)
        for name, channels in (
            ('keys', key_channels),
            ('queries', key_channels),
            ('values', value_channels),
        )
    )
    parts = []
    for key, query, value in zip(
        keys.chunk(heads, 1), queries.chunk(heads, 1), values.chunk(heads, 1)
    ):
        context = key.softmax(2) @ value.transpose(1, 2)
        parts.append(context.transpose(1, 2) @ query.softmax(1))
    return W.conv('reprojection', torch.cat(parts, 1).unflatten(-1, x.shape[-2:]), x.shape[1]) + x


def features(W: Weights, x: Tensor, align: bool, attention=None) -> Tensor:
    P = 'feature_extraction.'
    for index, stride in ((0, 2), (2, 1), (4, 1)):
        x = W.convbn(f'{P}firstconv.{index}', x, C, 3, stride).relu()
    stages = []
    for layer, (depth, out, stride, dilation) in enumerate(
        zip(DEPTHS, (C, 2 * C, 4 * C, 4 * C), (1, 2, 1, 1), (1, 1, 1, 2)), 1
    ):
        for block in range(depth):
            name, step = f'{P}layer{layer}.{block}', stride if block == 0 else 1
            y = W.convbn(f'{name}.conv1.0', x, out, 3, step, dilation).relu()
            y = W.convbn(f'{name}.conv2', y, out, 3, 1, dilation)
            changes = step != 1 or x.shape[1] != out
            x = y + (W.convbn(f'{name}.downsample', x, out, 1, step) if changes else x)
        stages.append(x)
    raw, skip = stages[1], stages[3]
    if attention is not None:
        skip = attention(skip)
    branches = [
        F.interpolate(
            W.convbn(f'{P}branch{i}.1', F.avg_pool2d(skip, size, size), C, 1).relu(),
            skip.shape[-2:],
            mode='bilinear',
            align_corners=align,
        )
        for i, size in enumerate(POOLS, 1)
    ]
    x = W.convbn(f'{P}lastconv.0', torch.cat((raw, skip, *branches[::-1]), 1), 4 * C, 3).relu()
    return F.conv2d(x, W.draw(f'{P}lastconv.2.weight', C, 4 * C, 1, 1))


def hourglass(W: Weights, name: str, x: Tensor, presqu: Tensor | None, postsqu: Tensor | None):
    out = W.convbn_3d(f'{name}.conv1.0', x, 2 * C, 2).relu()
    pre = W.convbn_3d(f'{name}.conv2', out, 2 * C)
    pre = (pre if postsqu is None else pre + postsqu).relu()
    out = W.convbn_3d(f'{name}.conv3.0', pre, 2 * C, 2).relu()
    out = W.convbn_3d(f'{name}.conv4.0', out, 2 * C).relu()
    post = (W.upconvbn(f'{name}.conv5', out, 2 * C) + (pre if presqu is None else presqu)).relu()
    return W.upconvbn(f'{name}.conv6', post, C), pre, post


def psmnet(
    W: Weights, left: Tensor, right: Tensor, max_disp: int, align: bool, basic: bool, attention
) -> list[Tensor]:
    left_map, right_map = (features(W, image, align, attention) for image in (left, right))
    cost = left_map.new_zeros(len(left), 2 * C, max_disp // 4, *left_map.shape[-2:])
    for d in range(max_disp // 4):
        cost[:, :C, d, :, d:] = left_map[..., d:]
        cost[:, C:, d, :, d:] = right_map[..., : right_map.shape[-1] - d]

    def pair(name: str, x: Tensor) -> Tensor:
        return W.convbn_3d(f'{name}.2', W.convbn_3d(f'{name}.0', x, C).relu(), C)

    def classify(name: str, x: Tensor) -> Tensor:
        return F.conv3d(
            W.convbn_3d(f'{name}.0', x, C).relu(),
            W.draw(f'{name}.2.weight', 1, C, 3, 3, 3),
            None,
            1,
            1,
        )

    cost0 = pair('dres0', cost).relu()
    cost0 = pair('dres1', cost0) + cost0
    if basic:
        for name in ('dres2', 'dres3', 'dres4'):
            cost0 = pair(name, cost0) + cost0
        scores = [classify('classify', cost0)]
    else:
        out1, pre1, post1 = hourglass(W, 'dres2', cost0, None, None)
        out2, _, post2 = hourglass(W, 'dres3', out1 + cost0, pre1, post1)
        out3, _, _ = hourglass(W, 'dres4', out2 + cost0, pre1, post2)
        scores = [classify('classif1', out1 + cost0)]
        scores.append(classify('classif2', out2 + cost0) + scores[0])
        scores.append(classify('classif3', out3 + cost0) + scores[1])
    disparity = torch.arange(max_disp, dtype=torch.float64)[:, None, None]
    sizes = (max_disp, *left.shape[-2:])
    resized = (
        F.interpolate(score, sizes, mode='trilinear', align_corners=align)[:, 0] for score in scores
    )
    return [(score.softmax(1) * disparity).sum(1) for score in resized]


@pytest.mark.parametrize('align', [False, True])
@pytest.mark.parametrize(
    'family, size, max_disp, heads',
    [
        ('psmnet', (48, 80), 32, None),
        ('psmnet', (64, 64), 48, 2),
        ('psmnet_basic', (32, 52), 20, None),
        ('psmnet_basic', (40, 36), 12, 4),
    ],
)
def test_psmnet_estimates_match_official_model(family, size, max_disp, heads, align):
    left, right = torch.randn(
        2, 2, 3, *size, dtype=torch.float64, generator=torch.Generator().manual_seed(0)
    )
    weights, inserted = Weights(), Weights()
    attend = None if heads is None else lambda x: efficient_attention(inserted, x, 8, 12, heads)
    expected = psmnet(weights, left, right, max_disp, align, family == 'psmnet_basic', attend)

    config = (
        None
        if heads is None
        else dict(
            type='mmflatten.FactorizedAttention',
            basis_channels=8,
            value_channels=12,
            num_heads=heads,
        )
    )
    model = MODELS.build(
        dict(
            type='mmflatten.PSMNet',
            max_disp=max_disp,
            base_channels=C,
            depths=DEPTHS,
            pool_sizes=POOLS,
            attention=config,
            align_corners=align,
            aggregation='basic' if family == 'psmnet_basic' else 'stackhourglass',
        )
    ).double()
    state = convert_state_dict(weights, family)
    if heads is not None:
        converted = convert_state_dict(inserted, 'efficient_attention')
        state.update({f'features.attention.{name}': value for name, value in converted.items()})
    model.load_state_dict(state, strict=True)
    norms = [
        module
        for module in model.modules()
        if isinstance(module, torch.nn.modules.batchnorm._BatchNorm)
    ]
    model.train()
    for norm in norms:
        norm.eval()
    with torch.no_grad():
        estimates = model(dict(left=left, right=right))
        final = model.eval()(dict(left=left, right=right))
    assert expected[-1].std() > 0.5
    for estimate, value in zip((*estimates, final), (*expected, expected[-1]), strict=True):
        torch.testing.assert_close(estimate, value, rtol=0, atol=1e-9)

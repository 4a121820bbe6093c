"""Simple feature pyramid: levels, sizes, gradients, and use with FLatten-DeiT in mmdet and
mmseg.
"""

import pytest
import torch
from mmengine.registry import MODELS as ROOT_MODELS
from mmengine.registry import DefaultScope
from torch import nn

from mmflatten.models.backbones import FLattenDeiT
from mmflatten.models.detection import SimpleFeaturePyramid
from mmflatten.models.detection.simple_feature_pyramid import ChannelNorm


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(0)


def pyramid(**kwargs):
    return SimpleFeaturePyramid(in_channels=8, out_channels=6, **kwargs)


@pytest.mark.parametrize('height, width', [(1, 1), (4, 6), (7, 5)])
def test_simple_pyramid_levels_have_expected_sizes(height, width):
    outputs = pyramid(num_outs=5)([torch.randn(2, 8, height, width)])
    half = (-(-height // 2), -(-width // 2))
    sizes = [
        (4 * height, 4 * width),
        (2 * height, 2 * width),
        (height, width),
        half,
        tuple(-(-s // 2) for s in half),
    ]
    assert [tuple(output.shape) for output in outputs] == [(2, 6, *size) for size in sizes]


def test_simple_pyramid_uses_last_map_and_trains_every_parameter():
    neck = pyramid()
    earlier, last = (
        torch.randn(1, 8, 4, 4, requires_grad=True),
        torch.randn(1, 8, 4, 4, requires_grad=True),
    )
    sum(output.square().mean() for output in neck((earlier, last))).backward()
    assert earlier.grad is None and last.grad.abs().sum() > 0
    assert all(parameter.grad is not None for parameter in neck.parameters())


def test_simple_pyramid_levels_are_independent():
    neck, x = pyramid().eval(), torch.randn(1, 8, 4, 4)
    with torch.no_grad():
        before = neck([x])
        nn.init.zeros_(neck.levels[0].enlarge.weight)
        after = neck([x])
    assert not torch.equal(before[0], after[0])
    for one, other in zip(before[1:], after[1:]):
        torch.testing.assert_close(one, other, rtol=0, atol=0)


def test_simple_pyramid_extra_level_subsamples_previous_level():
    outputs = pyramid(scales=(1.0, 0.5), num_outs=3)([torch.randn(1, 8, 8, 6)])
    torch.testing.assert_close(outputs[2], outputs[1][..., ::2, ::2], rtol=0, atol=0)


def test_channel_norm_matches_explicit_formula():
    norm, x = ChannelNorm(8), torch.randn(2, 8, 3, 5)
    nn.init.normal_(norm.weight)
    nn.init.normal_(norm.bias)
    mean, variance = x.mean(1, keepdim=True), x.var(1, keepdim=True, unbiased=False)
    expected = (x - mean) / (variance + norm.eps).sqrt() * norm.weight[:, None, None] + norm.bias[
        :, None, None
    ]
    torch.testing.assert_close(norm(x), expected, rtol=1e-5, atol=1e-5)


def test_simple_pyramid_maps_are_contiguous():
    x = torch.randn(2, 8, 4, 6).contiguous(memory_format=torch.channels_last)
    assert all(output.is_contiguous() for output in pyramid(num_outs=5)([x]))


def test_simple_pyramid_norm_parameters_are_named_norm():
    neck = pyramid()
    norms = set()
    for module in neck.modules():
        if isinstance(module, ChannelNorm):
            norms.update(map(id, module.parameters()))
    assert norms == {id(p) for name, p in neck.named_parameters() if 'norm' in name}


@pytest.mark.parametrize('scope', ['mmdet', 'mmseg'])
def test_simple_pyramid_builds_from_scope(scope):
    with DefaultScope.overwrite_default_scope(scope):
        backbone = ROOT_MODELS.build(
            dict(
                type='mmflatten.FLattenDeiT',
                arch=dict(embed_dims=8, depth=2, num_heads=2),
                img_size=64,
                out_type='featmap',
            )
        )
        neck = ROOT_MODELS.build(
            dict(type='mmflatten.SimpleFeaturePyramid', in_channels=8, out_channels=6)
        )
    assert isinstance(backbone, FLattenDeiT) and isinstance(neck, SimpleFeaturePyramid)
    outputs = neck(backbone(torch.randn(1, 3, 64, 96)))
    assert [tuple(output.shape[-2:]) for output in outputs] == [(16, 24), (8, 12), (4, 6), (2, 3)]


@pytest.mark.parametrize(
    'settings, message',
    [
        (dict(scales=(4.0, 3.0)), r'scales.*\(4.0, 3.0\)'),
        (dict(scales=(1.0, 2.0)), r'scales.*\(1.0, 2.0\)'),
        (dict(scales=()), 'scales'),
        (dict(num_outs=3), r'num_outs.*3'),
    ],
)
def test_simple_pyramid_rejects_invalid_arguments(settings, message):
    with pytest.raises(ValueError, match=message):
        pyramid(**settings)


def test_simple_pyramid_rejects_map_with_other_channels():
    with pytest.raises(ValueError, match=r'in_channels.*12.*8'):
        pyramid()([torch.randn(1, 12, 4, 4)])

"""Effective receptive fields: known results, and every family."""

import numpy as np
import pytest
import torch
from attention_study.layer_maps import stages
from attention_study.receptive_field import ReceptiveField, receptive_field
from torch import nn

from mmflatten.registry import MODELS

FAMILIES = {
    'FLattenPVT': dict(
        arch=dict(embed_dims=(8, 12, 20, 32), depths=(1, 1, 2, 1), num_heads=(1, 2, 5, 8))
    ),
    'FLattenPVTv2': dict(
        arch=dict(embed_dims=(8, 12, 20, 32), depths=(1, 1, 2, 1), num_heads=(1, 2, 5, 8))
    ),
    'FLattenCSwin': dict(arch=dict(embed_dims=8, depths=(1, 1, 2, 1), num_heads=(1, 2, 4, 8))),
    'FLattenDeiT': dict(arch=dict(embed_dims=12, depth=4, num_heads=3)),
    'FLattenSwin': dict(arch=dict(embed_dims=24, depths=(1, 2, 2, 1), num_heads=(1, 2, 3, 6))),
    'FocalTransformer': dict(
        arch=dict(embed_dims=24, depths=(1, 2, 2, 1), num_heads=(1, 2, 3, 6)),
        window_size=2,
        expand_size=1,
        focal_windows=(5, 3, 3, 1),
        expand_always=True,
    ),
    'L2ViT': dict(arch=dict(embed_dims=24, depths=(2, 2, 4, 2), num_heads=(1, 2, 3, 6))),
}


def build(name: str, **kwargs) -> nn.Module:
    torch.manual_seed(0)
    MODELS.import_from_location()
    return MODELS.build(dict(type=name, img_size=64, **{**FAMILIES.get(name, {}), **kwargs}))


def images(number: int, height: int, width: int) -> torch.Tensor:
    return torch.randn(number, 3, height, width, generator=torch.Generator().manual_seed(1))


def test_receptive_field_of_a_convolution_is_its_kernel():
    torch.manual_seed(0)
    conv, backbone = nn.Conv2d(3, 5, 3, padding=1), nn.Module()
    backbone.blocks, backbone.forward = nn.ModuleList([conv]), lambda image: conv(image)
    field = receptive_field(backbone, images(2, 9, 13))
    weights = conv.weight.detach().double().sum(0).abs().sum(0)
    expected = torch.zeros(9, 13, dtype=torch.double)
    expected[3:6, 5:8] = weights / weights.sum()
    np.testing.assert_allclose(field.values, expected, atol=1e-7)
    assert field.center == (6, 4)


def test_receptive_field_of_windows_and_of_global_attention():
    swin = build('FLattenSwin', attn_types='SSSS', softmax_window=4)
    seen = receptive_field(swin, images(1, 64, 96), 0).values > 0
    expected = np.zeros((64, 96), bool)
    expected[32:48, 48:64] = True  # token (8, 12) of patches of 4 pixels, in windows of 4 tokens
    assert (seen == expected).all()
    for letter in 'SL':  # as a classifier, its output would be the class token
        deit = build('FLattenDeiT', attn_types=letter)
        assert (receptive_field(deit, images(1, 48, 80)).values > 0).all()


@pytest.mark.parametrize('name', FAMILIES)
def test_every_stage_of_every_family_at_an_odd_size(name):
    model = build(name, frozen_stages=1, with_cp=True).train()
    fields = [
        receptive_field(model, images(1, 65, 97), stage) for stage in range(len(stages(model)))
    ]
    assert len(fields) == 4
    for field in fields:
        assert (
            field.values.shape == (65, 97)
            and field.values.sum() == pytest.approx(1)
            and field.values.min() >= 0
        )
        assert field.radius > 0
    assert fields[0].share(0.5) < fields[-1].share(0.5)
    assert all(weight.grad is None for weight in model.parameters())


def test_resnet_with_attention_and_the_backbone_of_a_whole_model():
    MODELS.import_from_location()
    resnet = MODELS.build(dict(type='AttentionResNet', depth=18, attention_after=(3,)))
    whole = nn.Module()
    whole.backbone = resnet
    fields = [receptive_field(model, images(1, 64, 96), 2) for model in (resnet, whole)]
    assert (fields[0].values == fields[1].values).all() and fields[1].share(0.95) > 0.5
    assert stages(whole) == [f'backbone.layer{number}' for number in (1, 2, 3, 4)]


def test_receptive_field_is_the_mean_over_images():
    model = build('FLattenSwin')
    both = images(2, 64, 64)
    single = [receptive_field(model, [image]).values for image in both]
    mean = receptive_field(model, both).values
    assert mean.sum() == pytest.approx(1)
    assert (
        np.linalg.matrix_rank(np.stack([mean.ravel(), *(values.ravel() for values in single)])) == 2
    )


def test_numbers_of_a_known_field():
    values = np.zeros((4, 10))
    values[1, 2], values[1, 5], values[3, 2] = 0.6, 0.3, 0.1
    field = ReceptiveField(values, (2.0, 1.0))
    assert (
        field.share(0.5) == 1 / 40 and field.share(0.95) == 3 / 40 and field.share(0.85) == 2 / 40
    )
    assert field.radius == pytest.approx(0.3 * 3 + 0.1 * 2)
    assert field.figures() == dict(share_50=1 / 40, share_95=3 / 40, radius=field.radius)


@pytest.mark.parametrize('stage', [7, -5])
def test_unknown_stage_error_names_the_stage(stage):
    with pytest.raises(ValueError, match=f'--stage.*0 to 3, got {stage}'):
        receptive_field(build('FLattenSwin'), images(1, 32, 32), stage)
    with pytest.raises(ValueError, match='--stage.*Identity'):
        receptive_field(nn.Identity(), images(1, 32, 32), stage)


def test_blocks_without_a_map_are_rejected():
    backbone = nn.Module()
    backbone.blocks = nn.ModuleList([nn.Flatten(2)])
    backbone.forward = lambda image: backbone.blocks[0](image)
    with pytest.raises(ValueError, match='Flatten'):
        receptive_field(backbone, images(1, 32, 32))


def test_images_of_different_sizes_are_rejected():
    model = build('FLattenSwin')
    with pytest.raises(ValueError, match='32.*64'):
        receptive_field(model, [*images(1, 64, 64), *images(1, 32, 32)])

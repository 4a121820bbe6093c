"""Counting stereo models: two images, every operator."""

from pathlib import Path

import pytest
import torch

from mmflatten.measure.flops import count_operations
from mmflatten.measure.flops.meta import build_on_meta
from mmflatten.measure.flops.model_cost import count_config, count_model
from mmflatten.measure.flops.rules import CONV, PRODUCT
from mmflatten.registry import MODELS
from mmflatten.tasks import task_of_model

ATTENTION = "attention=dict(type='mmflatten.FactorizedAttention')"


@pytest.fixture
def config(tmp_path):

    def write(options: str = '') -> Path:
        path = tmp_path / 'psmnet.py'
        path.write_text(f"default_scope = 'mmflatten'\nmodel = dict(type='PSMNet', {options})\n")
        return path

    return write


def convolutions(height: int, width: int) -> int:
    """Multiply-accumulates of PSMNet with stacked hourglasses, added up from its description."""
    full, quarter = height * width, height * width // 16
    c = 32
    residual = 3 * 2 * c * c * 9 * full / 4
    residual += (c * 2 * c * 10 + (2 * 16 - 1) * (2 * c) ** 2 * 9) * quarter
    residual += (
        2 * c * 4 * c * 10 + (2 * 3 - 1) * (4 * c) ** 2 * 9 + 6 * (4 * c) ** 2 * 9
    ) * quarter
    stem = (3 * c + 2 * c * c) * 9 * full / 4
    pools = sum(4 * c * c * quarter / size**2 for size in (64, 32, 16, 8))
    fusion = (10 * c * 4 * c * 9 + 4 * c * c) * quarter
    volume = 48 * quarter
    matching = (2 * c * c + 3 * c * c) * 27 * volume  # stem and refinement
    half, eighth = volume / 8, volume / 64
    hourglass = 27 * c * c * ((2 + 4) * half + (4 + 4) * eighth + 4 * eighth + 2 * half)
    heads = 3 * 27 * (c * c + c) * volume
    return int(2 * (stem + residual + pools + fusion) + matching + 3 * hourglass + heads)


def test_stereo_config_is_counted_with_two_images_of_the_training_crop(config):
    cost = count_config(config())
    assert cost.shape == (256, 512)
    assert cost.params == 5_224_768
    assert cost.counts.by_kind[CONV] == cost.counts.macs == convolutions(256, 512)
    assert not cost.counts.uncounted


def test_attention_adds_its_projections_and_products_for_both_images(config):
    plain, attentive = (count_config(config(options)) for options in ('', ATTENTION))
    assert attentive.params - plain.params == 49_536
    positions, width, basis = 64 * 128, 128, 64
    projections = 2 * positions * width * (2 * basis + 2 * width)
    assert (
        attentive.counts.macs - plain.counts.macs == projections + 2 * 2 * positions * basis * width
    )
    assert attentive.counts.by_kind[PRODUCT] == 2 * 2 * positions * basis * width


def test_counting_on_meta_equals_counting_a_real_run():
    model = dict(
        type='mmflatten.PSMNet',
        max_disp=16,
        base_channels=4,
        depths=(1, 1, 1, 1),
        pool_sizes=(4, 2),
        attention=dict(type='mmflatten.ConventionalAttention'),
    )
    meta = count_model(build_on_meta(model, 'mmflatten'), (33, 51))
    image = torch.zeros(1, 3, 33, 51)
    real = count_operations(MODELS.build(model).eval(), dict(left=image, right=image))
    assert meta.counts.macs == real.macs
    assert meta.counts.by_kind[PRODUCT] == real.by_kind[PRODUCT] > 0
    assert not meta.counts.uncounted and not real.uncounted


def test_backbone_of_this_project_has_no_task():
    arch = dict(embed_dims=16, depths=[1], num_heads=[1])
    backbone = build_on_meta(
        dict(type='FLattenSwin', arch=arch, attn_types='L', out_indices=(0,)), 'mmflatten'
    )
    assert task_of_model(backbone) is None
    assert count_model(backbone, (32, 32)).counts.macs > 0
    assert task_of_model(build_on_meta(dict(type='PSMNet'), 'mmflatten')).name == 'stereo'


def test_too_small_image_is_an_error_that_names_the_config(config):
    with pytest.raises(ValueError, match=r'psmnet\.py.*cannot run at 128x512.*256x256'):
        count_config(config(), (128, 512))

"""Parameters and FLOPs of whole models, against published numbers and OpenMMLab's own counter."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from mmengine.analysis import get_model_complexity_info
from mmengine.config import Config
from mmengine.model import revert_sync_batchnorm
from mmengine.registry import MODELS, DefaultScope

from mmflatten.measure.flops import count_operations
from mmflatten.measure.flops.meta import build_on_meta
from mmflatten.measure.flops.model_cost import ModelCost, count_model
from mmflatten.measure.flops.rules import PRODUCT

CONFIGS = Path(__file__).parents[2] / 'configs'
KnownModel = Callable[[str, str], dict]
SHAPES = {'mmdet': (800, 1280), 'mmseg': (512, 2048)}


def cost_of(model: dict, scope: str = 'mmdet') -> ModelCost:
    return count_model(build_on_meta(model, scope), SHAPES[scope])


# Published: parameters in millions and FLOPs in 1e9. R50: mmdet's baselines; Swin: Liu et al.,
# tables 2 and 3, and their repositories; PVT-T: FLatten, table 2a. Focal, tables 4 and 5, counts
# Swin-T without products.
@pytest.mark.parametrize(
    'kind, backbone, scope, params, flops, flops_without_products',
    [
        ('mask-rcnn', 'r50', 'mmdet', 44.396, 260, None),
        ('mask-rcnn', 'swin-t', 'mmdet', 47.8, 267, 264),
        ('mask-rcnn', 'pvt-t', 'mmdet', 32.9, 240, None),
        ('cascade-mask-rcnn', 'swin-t', 'mmdet', 85.6, 745, 742),
        ('cascade-mask-rcnn', 'swin-s', 'mmdet', 106.9, 838, None),
        ('atss', 'swin-t', 'mmdet', 35.7, 215, 212),
        ('upernet', 'swin-t', 'mmseg', 59.942, 945, None),
        ('upernet', 'swin-s', 'mmseg', 81.26, 1038, None),
    ],
)
def test_published_numbers(
    known_model: KnownModel,
    kind: str,
    backbone: str,
    scope: str,
    params: float,
    flops: float,
    flops_without_products: float | None,
) -> None:
    cost = cost_of(known_model(kind, backbone), scope)
    assert cost.params / 1e6 == pytest.approx(params, abs=0.05)
    assert cost.counts.papers_convention() / 1e9 == pytest.approx(flops, rel=1e-3)
    if flops_without_products:
        without = cost.counts.papers_convention(with_products=False)
        assert without / 1e9 == pytest.approx(flops_without_products, rel=1e-3)
    assert not cost.counts.uncounted


def test_papers_convention_equals_the_counter_of_mmengine(known_model: KnownModel) -> None:
    config = known_model('upernet', 'swin-t')
    config['backbone'].update(depths=[1, 1, 2, 1])
    ours = count_model(build_on_meta(config, 'mmseg'), (64, 96))
    with DefaultScope.overwrite_default_scope('mmseg'):
        model = revert_sync_batchnorm(MODELS.build(config)).eval()
    model.forward = model._forward
    theirs = get_model_complexity_info(
        model, input_shape=(3, 64, 96), show_table=False, show_arch=False
    )
    assert ours.counts.papers_convention() == theirs['flops']
    assert ours.params == theirs['params']


def test_counting_on_meta_equals_counting_a_real_run() -> None:
    config = dict(
        type='ImageClassifier',
        head=dict(type='LinearClsHead', num_classes=10, in_channels=128),
        neck=dict(type='GlobalAveragePooling'),
        backbone=dict(
            type='mmflatten.FLattenSwin',
            out_indices=(3,),
            arch=dict(embed_dims=16, depths=[1, 1, 2, 1], num_heads=[1, 2, 4, 8]),
        ),
    )
    image = torch.zeros(1, 3, 65, 97)
    with DefaultScope.overwrite_default_scope('mmpretrain'), torch.no_grad():
        model = MODELS.build(config).eval()
    real = count_operations(model, image, mode='tensor')
    meta = count_model(build_on_meta(config, 'mmpretrain'), (65, 97))
    assert meta.counts.macs == real.macs
    assert meta.counts.by_kind[PRODUCT] == real.by_kind[PRODUCT] > 0
    assert not meta.counts.uncounted and not real.uncounted


def test_two_stage_detector_counts_1000_boxes_and_100_masks(known_model: KnownModel) -> None:
    counts = count_model(build_on_meta(known_model('mask-rcnn', 'r50'), 'mmdet'), (64, 96)).counts
    box_head = 1000 * (256 * 49 * 1024 + 1024 * 1024 + 1024 * (81 + 80 * 4))
    mask_head = 100 * (4 * 196 * 256 * 256 * 9 + 196 * 256 * 256 * 4 + 784 * 256 * 80)
    assert sum(counts.of_module('roi_head.bbox_head').values()) == box_head
    assert sum(counts.of_module('roi_head.mask_head').values()) == mask_head


def test_htc_counts_every_stage_and_the_semantic_branch(known_model: KnownModel) -> None:
    counts = cost_of(known_model('htc', 'r50')).counts
    box_head = 1000 * (256 * 49 * 1024 + 1024 * 1024 + 1024 * (81 + 4))  # one box for all classes
    assert [
        sum(counts.of_module(f'roi_head.bbox_head.{stage}').values()) for stage in range(3)
    ] == [box_head] * 3
    mask_heads = [
        sum(counts.of_module(f'roi_head.mask_head.{stage}').values()) for stage in range(3)
    ]
    # the later ones take in the features of the one before
    assert mask_heads[0] < mask_heads[1] == mask_heads[2]
    assert counts.of_module('roi_head.semantic_head').total() > 1e9
    assert not counts.uncounted


def test_sparse_rcnn_counts_learned_proposals_and_dynamic_convolutions(
    known_model: KnownModel,
) -> None:
    cost = cost_of(known_model('sparse-rcnn', 'swin-t'))
    assert f'{cost.params / 1e6:.1f}' == '109.7'  # Focal, table 5
    dynamic_conv = cost.counts.of_module('roi_head.bbox_head.0.instance_interactive_conv')
    assert dynamic_conv[PRODUCT] == 300 * 49 * 2 * 256 * 64
    assert not cost.counts.uncounted


def test_reppoints_v2_cost_equals_the_swin_release() -> None:
    """45 M and 283 G with Swin-T, in the README of its detectors."""
    cost = cost_of(
        Config.fromfile(CONFIGS / 'focal' / 'reppoints-v2_swin-t_bifpn_ms-3x_coco.py').model
    )
    assert cost.params / 1e6 == pytest.approx(44.92, abs=0.005)
    assert f'{cost.counts.papers_convention() / 1e9:.0f}' == '283'
    assert not cost.counts.uncounted


@pytest.mark.parametrize(
    'bbox_head',
    [
        dict(type='RetinaHead', num_classes=80, in_channels=256),
        dict(type='RepPointsHead', num_classes=80, in_channels=256),
        dict(type='FCOSHead', num_classes=80, in_channels=256),
    ],
)
def test_one_stage_heads_are_counted_without_gaps(known_model: KnownModel, bbox_head: dict) -> None:
    config = known_model('atss', 'r50')
    config['type'], config['bbox_head'], config['train_cfg'] = (
        'SingleStageDetector',
        bbox_head,
        None,
    )
    counts = count_model(build_on_meta(config, 'mmdet'), (256, 320)).counts
    assert counts.of_module('bbox_head').total() > 1e9
    assert not counts.uncounted


def test_deformable_convolution_counts_like_a_convolution(known_model: KnownModel) -> None:
    config = known_model('mask-rcnn', 'r50')
    plain = count_model(build_on_meta(config, 'mmdet'), (256, 320)).counts
    config['backbone'].update(
        dcn=dict(type='DCNv2', deform_groups=1), stage_with_dcn=(False, True, True, True)
    )
    deformable = count_model(build_on_meta(config, 'mmdet'), (256, 320)).counts
    offsets = sum(
        kinds.total()
        for name, kinds in deformable.by_module.items()
        if name.endswith('conv_offset')
    )
    assert offsets > 0
    assert deformable.macs == plain.macs + offsets


def test_channel_mismatch_names_the_module(known_model: KnownModel) -> None:
    config = known_model('mask-rcnn', 'r50')
    config['neck']['in_channels'] = [256, 512, 1024, 1000]
    with pytest.raises(
        ValueError,
        match=r'MaskRCNN: cannot run at 64x96: .*neck.lateral_convs.3.conv, '
        r'Conv2d\(1000, 256.*\(1, 2048, 2, 3\)',
    ):
        count_model(build_on_meta(config, 'mmdet'), (64, 96))

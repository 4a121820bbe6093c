"""Exported detectors: the same boxes, scores, labels and masks as mmdet, in the same order."""

import copy
from pathlib import Path

import numpy as np
import pytest
import torch
from mmdet.structures import DetDataSample

from mmflatten.config import build_model
from mmflatten.engine.setup import load_config
from mmflatten.export.comparison import compare, noise_case
from mmflatten.export.detection.agreement import image_errors
from mmflatten.export.detection.suppression import ABSENT, keep_boxes
from mmflatten.export.metadata import describe
from mmflatten.export.onnx_files import OnnxFile, side_range, write
from mmflatten.export.wrappers import wrap
from mmflatten.runtime import OPENVINO
from mmflatten.runtime.files import ModelFile

ROOT = Path(__file__).resolve().parents[2]
CONFIGS = ROOT / 'configs'
# One block for each map, because the families of backbones are tested elsewhere.
BACKBONE = dict(
    type='mmflatten.FLattenSwin',
    arch=dict(embed_dims=8, depths=(1, 1, 1, 1), num_heads=(1, 1, 1, 1), mlp_ratio=1.0),
    attn_types='LLSS',
    img_size=64,
    softmax_window=5,
)
NORM = dict(type='GN', num_groups=4)
CHANNELS = 16


def small_neck(num_maps, **options):
    return dict(in_channels=[8, 16, 32, 64][-num_maps:], out_channels=CHANNELS, **options)


def box_head(stds):
    return dict(
        type='Shared2FCBBoxHead',
        in_channels=CHANNELS,
        fc_out_channels=16,
        roi_feat_size=7,
        num_classes=10,
        bbox_coder=dict(type='DeltaXYWHBBoxCoder', target_means=[0.0] * 4, target_stds=stds),
        reg_class_agnostic=False,
    )


def query_stage():
    return dict(
        type='DIIHead',
        num_classes=10,
        num_heads=2,
        num_reg_fcs=1,
        feedforward_channels=16,
        in_channels=CHANNELS,
        dynamic_conv_cfg=dict(
            type='DynamicConv',
            in_channels=CHANNELS,
            feat_channels=4,
            out_channels=CHANNELS,
            input_feat_shape=7,
            act_cfg=dict(type='ReLU', inplace=True),
            norm_cfg=dict(type='LN'),
        ),
        loss_cls=dict(type='FocalLoss', use_sigmoid=True),
        bbox_coder=dict(
            type='DeltaXYWHBBoxCoder',
            clip_border=False,
            target_means=[0.0] * 4,
            target_stds=[0.5, 0.5, 1.0, 1.0],
        ),
    )


EXTRACTOR = dict(out_channels=CHANNELS)
PROPOSALS = dict(in_channels=CHANNELS, feat_channels=CHANNELS)
# Configs and differences from them, which make the models small.
DETECTORS = {
    'retinanet': (
        'digits/retinanet_flatten-swin-nano_fpn_digits.py',
        dict(backbone=BACKBONE, neck=dict(in_channels=[16, 32, 64])),
    ),
    'atss': (
        'digits/atss_flatten-swin-nano_fpn_digits.py',
        dict(backbone=BACKBONE, neck=dict(in_channels=[16, 32, 64])),
    ),
    'mask-rcnn': (
        'digits/mask-rcnn_flatten-swin-nano_fpn_digits.py',
        dict(backbone=BACKBONE, neck=dict(in_channels=[8, 16, 32, 64])),
    ),
    'cascade-mask-rcnn': (
        '_base_/models/cascade-mask-rcnn_fpn.py',
        dict(
            backbone=BACKBONE,
            neck=small_neck(4),
            rpn_head=PROPOSALS,
            roi_head=dict(
                bbox_roi_extractor=EXTRACTOR,
                bbox_head=[box_head([0.1, 0.1, 0.2, 0.2]), box_head([0.05, 0.05, 0.1, 0.1])],
                num_stages=2,
                stage_loss_weights=[1, 0.5],
                mask_roi_extractor=EXTRACTOR,
                mask_head=dict(in_channels=CHANNELS, conv_out_channels=CHANNELS, num_classes=10),
            ),
            train_cfg=dict(rcnn=None),
            test_cfg=dict(rpn=dict(max_per_img=50), rcnn=dict(max_per_img=20)),
        ),
    ),
    'reppoints-v2': (
        '_base_/models/reppoints-v2_bifpn.py',
        dict(
            backbone=BACKBONE,
            neck=small_neck(3, num_layers=1, norm_cfg=NORM),
            bbox_head=dict(
                num_classes=10,
                in_channels=CHANNELS,
                feat_channels=CHANNELS,
                point_feat_channels=CHANNELS,
                corner_channels=8,
                stacked_convs=1,
                norm_cfg=NORM,
            ),
        ),
    ),
    'sparse-rcnn': (
        '_base_/models/sparse-rcnn_fpn.py',
        dict(
            backbone=BACKBONE,
            neck=small_neck(4),
            rpn_head=dict(num_proposals=12, proposal_feature_channel=CHANNELS),
            roi_head=dict(
                num_stages=2,
                stage_loss_weights=[1, 1],
                proposal_feature_channel=CHANNELS,
                bbox_roi_extractor=EXTRACTOR,
                bbox_head=[query_stage(), query_stage()],
            ),
            train_cfg=dict(rcnn=None),
            test_cfg=dict(rcnn=dict(max_per_img=12)),
        ),
    ),
    'dino': (
        '_base_/models/dino-4scale_nano.py',
        dict(backbone=BACKBONE, neck=dict(in_channels=[16, 32, 64])),
    ),
    'mask2former': (
        '_base_/models/mask2former_nano.py',
        dict(backbone=BACKBONE, panoptic_head=dict(in_channels=[8, 16, 32, 64])),
    ),
    'encoder-mask': (
        '_base_/models/encoder-mask_nano.py',
        dict(
            backbone=BACKBONE,
            panoptic_head=dict(in_channels=[8, 16, 32, 64], num_blocks=1, embed_dims=CHANNELS),
        ),
    ),
}


@pytest.fixture(scope='module')
def built(tmp_path_factory):
    """Function that builds a detector and its exported module once."""
    models = {}

    def build(name):
        if name not in models:
            base, differences = DETECTORS[name]
            folder = tmp_path_factory.mktemp(name)
            file = folder / f'{name}.py'
            file.write_text(f"_base_ = ['{CONFIGS / base}']\nmodel = {differences!r}\n")
            cfg = load_config(str(file), work_dir=str(folder))
            torch.manual_seed(0)
            model = build_model(cfg).eval()
            # Random scores, so that there are many detections.
            for parameter in model.parameters():
                torch.nn.init.normal_(parameter, std=0.1)
            for key, parameter in model.named_parameters():
                if key.endswith('fc_cls.weight'):  # otherwise the scores are nearly equal
                    parameter.data.mul_(20)
            # The export replaces some modules.
            models[name] = cfg, copy.deepcopy(model), wrap(model).eval()
        return models[name]

    return build


def images_of(*shape):
    return torch.rand(*shape, generator=torch.Generator().manual_seed(0)) * 255


def mmdet_results(model, module, images):
    """Instances of each image, by mmdet."""
    inputs = module.prepare(images)
    size = tuple(images.shape[-2:])
    meta = dict(
        img_shape=size,
        ori_shape=size,
        scale_factor=(1.0, 1.0),
        batch_input_shape=tuple(inputs.shape[-2:]),
    )
    samples = [DetDataSample(metainfo=meta) for _ in images]
    with torch.no_grad():
        results = model.predict(inputs, samples, rescale=False)
    return [sample.pred_instances for sample in results]


def ordered(boxes, scores):
    """Indices by falling score; boxes of equal score, as of cells in the padding, by position."""
    keys = (*boxes.numpy().round(3).T, -scores.numpy().round(5))
    return torch.from_numpy(np.lexsort(keys))


@pytest.mark.parametrize('name', DETECTORS)
def test_detector_agrees_with_mmdet(built, name):
    _, model, module = built(name)
    images = images_of(2, 3, 75, 101)
    with torch.no_grad():
        outputs = dict(zip(module.outputs, module(images), strict=True))
    for image, expected in enumerate(mmdet_results(model, module, images)):
        number = len(expected)
        assert number > 5
        assert (outputs['labels'][image, number:] == -1).all()
        found = {key: value[image, :number] for key, value in outputs.items()}
        assert (found['scores'].diff() <= 0).all()
        order = ordered(found['boxes'], found['scores'])
        expected = expected[ordered(expected.bboxes, expected.scores)]
        torch.testing.assert_close(found['boxes'][order], expected.bboxes, rtol=0, atol=1e-3)
        torch.testing.assert_close(found['scores'][order], expected.scores, rtol=0, atol=1e-5)
        assert found['labels'][order].tolist() == expected.labels.tolist()
        if 'masks' in outputs:
            assert found['masks'].dtype == torch.bool
            differs = found['masks'][order] != expected.masks
            assert differs.float().mean() < 1e-4


@pytest.mark.full
@pytest.mark.parametrize('name', DETECTORS)
def test_file_agrees_with_pytorch_at_open_sizes(built, tmp_path, name):
    cfg, _, module = built(name)
    file = tmp_path / 'model.onnx'
    # All maps of the example have several cells, but not of a whole number of strides.
    side = side_range(module)[0] + 31
    metadata = describe(module, cfg, {}, size=(side, side), dynamic=True)
    write(module, file, metadata)
    engine = OnnxFile(file)
    assert engine.metadata == metadata
    assert metadata['batch'] == [1, 256]
    if name == 'mask-rcnn':
        assert metadata['classes'] == list('0123456789')
        assert metadata['transforms'] == dict(resize=dict(scale=[160, 160], keep_ratio=True))
    odd = noise_case(module, (side + 11, side + 37), batch=3)
    for runtime in (engine, ModelFile(file, OPENVINO)):
        for case in (noise_case(module, (side, side)), odd):
            assert (runtime(*case.images)['labels'] >= 0).sum() > 5
            compare('', module, runtime, case)


def test_smallest_side_is_above_the_padding(built, monkeypatch):
    """The neck of a plain ViT has coarser maps than the stride of its patches."""
    _, model, _ = built('mask-rcnn')
    monkeypatch.setattr(type(model.backbone), 'out_strides', (16,))
    assert side_range(wrap(model))[0] == 33


def test_image_without_detections_has_one_row_of_padding(built, tmp_path):
    _, _, module = built('retinanet')
    threshold = module.head.score_threshold
    module.head.score_threshold = 2.0
    try:
        with torch.no_grad():
            boxes, scores, labels = module(images_of(1, 3, 64, 64))
    finally:
        module.head.score_threshold = threshold
    assert labels.tolist() == [[-1]]
    assert scores.tolist() == [[0.0]]
    assert boxes.tolist() == [[[0.0] * 4]]


def test_kept_boxes_of_two_images():
    boxes = torch.tensor([[0.0, 0, 10, 10], [0, 0, 10, 9], [20, 20, 30, 30], [20, 20, 30, 30]])
    scores = torch.tensor([[0.5, 0.9, 0.8, 0.7], [0.9, ABSENT, ABSENT, 0.1]])
    kept = keep_boxes(boxes.expand(2, -1, -1), scores, 0.5, 10)
    assert kept.tolist() == [[False, True, True, False], [True, False, False, True]]
    kept = keep_boxes(boxes.expand(2, -1, -1), scores, 0.5, 1)
    assert kept.tolist() == [[False, True, False, False], [True, False, False, False]]


def detections(*rows):
    boxes, scores, labels = zip(*rows)
    return dict(
        boxes=np.array(boxes, np.float32).reshape(-1, 4),
        scores=np.array(scores, np.float32),
        labels=np.array(labels),
    )


def test_errors_of_moved_missing_and_additional_detections():
    one = ((0, 0, 10, 10), 0.9, 1)
    two = ((50, 50, 100, 100), 0.4, 2)
    padding = ((0, 0, 0, 0), 0.0, -1)
    theirs = detections(one, two)
    assert image_errors(detections(one, two, padding), theirs, 0.05, 20) == [0, 0]
    # One per cent of the largest corner.
    moved = ((1, 0, 10, 10), 0.9, 1)
    np.testing.assert_allclose(image_errors(detections(moved, two), theirs, 0.05, 20), [0.01, 0])
    # Far above the threshold.
    np.testing.assert_allclose(image_errors(detections(one), theirs, 0.05, 20), [0, 0.35])
    # The other list is full of better boxes.
    np.testing.assert_allclose(image_errors(detections(one), theirs, 0.05, 1), [0, 0])
    additional = ((0, 0, 10, 10), 0.3, 3)
    np.testing.assert_allclose(
        image_errors(detections(one, two, additional), theirs, 0.05, 20), [0, 0, 0.25]
    )

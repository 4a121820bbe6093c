"""Test-time augmentation of detectors: merging of boxes and masks of several views."""
from pathlib import Path

import pytest
import torch
from mmdet.structures import DetDataSample
from mmengine.config import Config
from mmengine.registry import DefaultScope
from mmengine.structures import InstanceData
from torch import nn

from mmflatten.models.detection.instance_tta import InstanceTTAModel
from mmflatten.registry import MODELS

BASES = Path(__file__).parents[2] / 'configs' / '_base_' / 'models'
NMS = dict(type='nms', iou_threshold=0.5)
HEIGHT, WIDTH, CLASSES = 96, 128, 10


def build(name: str, **test_cfg) -> nn.Module:
    """A tiny detector with random weights, in test mode."""
    model = _shrink(Config.fromfile(BASES / f'{name}.py').model)
    widths = {0: 8, 1: 16, 2: 32, 3: 64}
    indices = model.backbone.get('out_indices', tuple(widths))
    model.backbone = dict(type='mmflatten.FLattenSwin', img_size=64, attn_types='LLSS', out_indices=indices,
                          arch=dict(embed_dims=8, depths=(1, 1, 1, 1), num_heads=(1, 1, 1, 1)))
    model.neck.in_channels = [widths[i] for i in indices]
    if 'roi_head' in model:
        # Small anchors are so far apart that proposals of two levels are not merged, as with real weights.
        model.rpn_head.anchor_generator.scales = [1]
        model.test_cfg.rpn.update(max_per_img=30, nms=dict(type='nms', iou_threshold=0.9))
        model.test_cfg.rcnn.update(score_thr=0.1, max_per_img=40)
    else:
        model.test_cfg.update(score_thr=0.3, nms_pre=50, max_per_img=20)
    model.test_cfg.get('rcnn', model.test_cfg).update(test_cfg)
    torch.manual_seed(0)
    with DefaultScope.overwrite_default_scope('mmdet'):
        detector = MODELS.build(model).eval()
    for name, parameter in detector.named_parameters():
        if name.split('.')[0] not in ('backbone', 'neck') and parameter.ndim > 1:  # outputs of all heads of order 1
            gain = 0.1 if '_reg' in name else 3 if 'fc_cls' in name else 0.5 if 'retina' in name else 2 ** 0.5
            nn.init.normal_(parameter, std=gain * parameter[0].numel() ** -0.5)
    return detector


def _shrink(settings):
    """Reduce the numbers of classes and channels in a config."""
    if isinstance(settings, dict):
        return type(settings)({key: _shrink(value) for key, value in settings.items()})
    if isinstance(settings, list):
        return [_shrink(value) for value in settings]
    return {80: CLASSES, 183: 5, 256: 32, 1024: 32}.get(settings, settings) if type(settings) is int else settings


@pytest.fixture(scope='module')
def images():
    generator = torch.Generator().manual_seed(0)
    return [torch.randint(256, (3, HEIGHT, width), generator=generator, dtype=torch.uint8) for width in (WIDTH, 96)]


def loaded(images, *views) -> dict:
    """Return a batch as the data loader does; a view is (scale, flip)."""
    def sample(image, scale, flip):
        shape = tuple(image.shape[1:])
        return DetDataSample(metainfo=dict(
            ori_shape=shape, img_shape=tuple(scale * side for side in shape), scale_factor=(float(scale), ) * 2,
            flip=flip, flip_direction='horizontal' if flip else None))

    def pixels(image, scale, flip):
        image = image.repeat_interleave(scale, 1).repeat_interleave(scale, 2)
        return image.flip(-1) if flip else image

    return dict(inputs=[[pixels(image, *view) for image in images] for view in views],
                data_samples=[[sample(image, *view) for image in images] for view in views])


@torch.no_grad()
def augmented(model, images, *views) -> list[InstanceData]:
    results = InstanceTTAModel(module=model).test_step(loaded(images, *views))
    return [result.pred_instances for result in results]


def assert_same(found, expected, mirrored_width=None):
    assert len(found) == len(expected) and torch.equal(found.labels, expected.labels)
    torch.testing.assert_close(found.scores, expected.scores, rtol=0, atol=1e-5)
    boxes, masks = expected.bboxes, expected.get('masks')
    if mirrored_width is not None:
        boxes = torch.stack([mirrored_width - boxes[:, 2], boxes[:, 1], mirrored_width - boxes[:, 0], boxes[:, 3]], 1)
        masks = None if masks is None else masks.flip(-1)
    torch.testing.assert_close(found.bboxes, boxes, rtol=0, atol=1e-3)
    if masks is not None:  # rounding may move a probability across the threshold
        assert found.masks.shape == masks.shape and (found.masks != masks).sum() <= 3


DETECTORS = ['mask-rcnn_fpn', 'cascade-mask-rcnn_fpn', 'htc_fpn', 'retinanet_fpn']


@pytest.mark.parametrize('name', DETECTORS)
def test_tta_of_identical_views_equals_plain_prediction(name, images):
    model = build(name, nms=NMS)
    with torch.no_grad():
        plain = model.test_step({key: views[0] for key, views in loaded(images, (1, False)).items()})
    for found, expected in zip(augmented(model, images, (1, False), (1, False)), plain):
        assert len(found) > 5
        if name != 'retinanet_fpn':
            areas = found.masks.sum((-2, -1))
            assert 0 < areas.float().mean() < HEIGHT * WIDTH / 2
        assert_same(found, expected.pred_instances)


@pytest.mark.parametrize('name', DETECTORS)
def test_tta_is_equivariant_to_flips(name, images):
    """Mirroring the image swaps the first and second view, so the detections must be mirrored exactly."""
    model = build(name, nms=NMS)
    image = images[0]
    found, = augmented(model, [image], (1, False), (1, True))
    mirrored, = augmented(model, [image.flip(-1)], (1, False), (1, True))
    single, = augmented(model, [image], (1, False))
    assert len(found) > 5 and found.scores.tolist() != single.scores.tolist()
    assert_same(mirrored, found, mirrored_width=WIDTH)


@pytest.mark.parametrize('name', ['mask-rcnn_fpn', 'retinanet_fpn'])
def test_tta_handles_images_without_detections(name, images):
    for found, image in zip(augmented(build(name, score_thr=1.), images, (1, False), (2, True)), images):
        assert found.bboxes.shape == (0, 4) and found.scores.shape == found.labels.shape == (0, )
        assert name == 'retinanet_fpn' or found.masks.shape == (0, *image.shape[1:])


def test_tta_keeps_the_best_box_with_its_mask():
    def view(x1, x2, score, flip):
        mask = torch.zeros(1, 8, 20, dtype=torch.bool)
        mask[:, 2:6, x1:x2] = True
        sample = DetDataSample(metainfo=dict(ori_shape=(8, 20), flip=flip, flip_direction='horizontal'))
        sample.pred_instances = InstanceData(
            bboxes=torch.tensor([[x1, 2., x2, 6.]]), scores=torch.tensor([score]), labels=torch.tensor([3]), masks=mask)
        return sample

    module = nn.Module()
    module.test_step = lambda data: data['data_samples']
    model = InstanceTTAModel(module=module, iou_threshold=0.5, max_per_img=10)
    # Columns 3 to 9 of 20 are 11 to 17 in the mirrored view, where the score is higher.
    merged, = model.test_step(dict(data_samples=[[view(3, 8, 0.6, flip=False)], [view(11, 17, 0.9, flip=True)]]))
    found = merged.pred_instances
    assert found.bboxes.tolist() == [[3, 2, 9, 6]]
    assert found.scores.tolist() == pytest.approx([0.9]) and found.labels.tolist() == [3]
    assert found.masks.sum() == 4 * 6 and found.masks[0, 2:6, 3:9].all()

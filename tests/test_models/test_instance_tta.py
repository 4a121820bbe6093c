"""Test-time augmentation of detectors: merging of proposals, candidates, boxes and masks of several views."""
from pathlib import Path

import pytest
import torch
from mmdet.models.detectors import SingleStageDetector
from mmdet.models.roi_heads.bbox_heads import Shared2FCBBoxHead
from mmdet.models.roi_heads.mask_heads import FCNMaskHead
from mmdet.structures import DetDataSample
from mmengine.config import Config, ConfigDict
from mmengine.registry import DefaultScope
from mmengine.structures import InstanceData
from torch import nn

from mmflatten.models.detection.instance_tta import InstanceTTAModel
from mmflatten.registry import MODELS

BASES = Path(__file__).parents[2] / 'configs' / '_base_' / 'models'
NMS = dict(hard=dict(type='nms', iou_threshold=0.5), soft=dict(type='soft_nms', iou_threshold=0.5))
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


@pytest.mark.parametrize('nms', ['hard', 'soft'])
@pytest.mark.parametrize('name', DETECTORS)
def test_tta_of_identical_views_equals_plain_prediction(name, nms, images):
    model = build(name, nms=NMS[nms])
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
    model = build(name, nms=NMS['soft'])
    image = images[0]
    found, = augmented(model, [image], (1, False), (1, True))
    mirrored, = augmented(model, [image.flip(-1)], (1, False), (1, True))
    single, = augmented(model, [image], (1, False))
    assert len(found) > 5 and found.scores.tolist() != single.scores.tolist()
    assert_same(mirrored, found, mirrored_width=WIDTH)


class Proposals(nn.Module):
    """An RPN that predicts the same boxes in every view."""

    def __init__(self, *boxes):
        super().__init__()
        self.boxes = torch.tensor(boxes).reshape(-1, 4)

    def predict(self, x, batch_data_samples, rescale):
        assert not rescale
        return [InstanceData(bboxes=in_view(self.boxes, sample.metainfo), labels=torch.zeros(len(self.boxes)),
                             scores=torch.linspace(0.9, 0.5, len(self.boxes))) for sample in batch_data_samples]


class Boxes(Shared2FCBBoxHead):
    """A head that predicts class 3 with a different probability per view and moves boxes right by a tenth."""

    def __init__(self, probabilities, flips):
        super().__init__(in_channels=32, fc_out_channels=8, num_classes=CLASSES)
        self.answers = [(torch.full((CLASSES + 1, ), (1 - p) / CLASSES).index_fill(0, torch.tensor(3), p).log(), flip)
                        for p, flip in zip(probabilities, flips)]

    def forward(self, x):
        logits, flip = self.answers.pop(0)
        deltas = torch.zeros(len(x), CLASSES, 4)
        deltas[..., 0] = -1 if flip else 1  # in tenths of the width
        return logits.expand(len(x), -1), deltas.flatten(1)


class Masks(FCNMaskHead):
    """A head whose masks have a probability per view in the left half of each box, and 0 in the right half."""

    def __init__(self, probabilities, flips):
        super().__init__(num_convs=0, in_channels=32, num_classes=CLASSES)
        self.answers = list(zip(probabilities, flips))

    def forward(self, x):
        probability, flip = self.answers.pop(0)
        masks = torch.full((len(x), CLASSES, 28, 28), 1e-6)
        masks[..., 14:] = probability if flip else 1e-6
        masks[..., :14] = 1e-6 if flip else probability
        return masks.logit()


def in_view(boxes, meta):
    boxes = boxes * boxes.new_tensor(meta['scale_factor'] * 2)
    left, top, right, bottom = boxes.T
    width = meta['img_shape'][1]
    return torch.stack([width - right, top, width - left, bottom], 1) if meta['flip'] else boxes


VIEWS = [(1, False), (2, False), (2, True)]
PLANTED = [[10., 20., 50., 60.], [60., 30., 100., 70.]]


def planted(scores=(0.8, 0.4, 0.3), masks=(0.9, 0.9, 0.9), boxes=PLANTED, **test_cfg) -> nn.Module:
    model = build('mask-rcnn_fpn', **test_cfg)
    flips = [flip for _, flip in VIEWS]
    model.rpn_head = Proposals(*boxes)
    model.roi_head.bbox_head, model.roi_head.mask_head = Boxes(scores, flips), Masks(masks, flips)
    return model


def test_tta_averages_boxes_and_scores_over_views(images):
    found, = augmented(planted(), images[:1], *VIEWS)
    torch.testing.assert_close(found.bboxes, torch.tensor(PLANTED) + torch.tensor([4., 0., 4., 0.]))
    assert found.scores.tolist() == pytest.approx([0.5, 0.5]) and found.labels.tolist() == [3, 3]


def test_tta_limits_merged_proposals_to_max_per_img(images):
    model = planted()
    model.test_cfg.rpn.max_per_img = 1
    found, = augmented(model, images[:1], *VIEWS)
    assert found.bboxes.tolist() == [[14, 20, 54, 60]]


@pytest.mark.parametrize('probabilities, there', [
    ((0.9, 0.9, 0.9), True), ((0.98, 0.3, 0.3), True),  # negative in most views
    ((0.999, 0.3, 0.1), False),  # the mean of the logits would be positive
    ((0.6, 0.6, 0.2), False)])  # positive in most views
def test_tta_masks_are_mean_probabilities(probabilities, there, images):
    found, = augmented(planted(masks=probabilities), images[:1], *VIEWS)
    first, second = found.masks[0, 20:60, 14:34], found.masks[1, 30:70, 64:84]
    assert found.masks.sum() == first.sum() + second.sum()
    for half in (first, second):  # pasting blends edges with zeros
        assert half[2:-2, 2:-2].all() == half.any() == there


def test_tta_applies_soft_nms_once_per_object(images):
    overlapping = [[10., 20., 50., 60.], [20., 20., 60., 60.]]  # intersection over union 0.6
    found, = augmented(planted(boxes=overlapping, nms=dict(NMS['soft'], min_score=0.01)), images[:1], *VIEWS)
    assert found.scores.tolist() == pytest.approx([0.5, 0.5 * 0.4])


class Candidates(nn.Module):
    """A one-stage head that predicts one object with a different score per view."""

    def __init__(self, *scores, **test_cfg):
        super().__init__()
        self.scores, self.test_cfg = list(scores), ConfigDict(max_per_img=5, **test_cfg)

    def forward(self, x):
        return [x]

    def predict_by_feat(self, x, batch_img_metas, with_nms):
        assert not with_nms
        score = self.scores.pop(0)
        boxes = torch.tensor(PLANTED[:1] if score else []).reshape(-1, 4)
        return [InstanceData(bboxes=in_view(boxes, meta), scores=torch.full((len(boxes), ), score),
                             labels=torch.full((len(boxes), ), 3)) for meta in batch_img_metas]


@pytest.mark.parametrize('nms', ['hard', 'soft'])
def test_tta_applies_nms_to_candidates_of_all_views(nms, images):
    model = build('retinanet_fpn')
    assert isinstance(model, SingleStageDetector)
    model.bbox_head = Candidates(0.4, 0.9, 0.6, nms=NMS[nms])
    for found in augmented(model, images, *VIEWS):
        torch.testing.assert_close(found.bboxes, torch.tensor(PLANTED[:1]))
        assert found.scores.tolist() == pytest.approx([0.9]) and found.labels.tolist() == [3]


def test_tta_handles_images_without_detections(images):
    model = build('retinanet_fpn')
    model.bbox_head = Candidates(0, 0, 0, nms=NMS['soft'])
    for empty in (planted(boxes=[]), planted(score_thr=0.9), model):
        for found, image in zip(augmented(empty, images, *VIEWS), images):
            assert found.bboxes.shape == (0, 4) and found.scores.shape == found.labels.shape == (0, )
            assert empty is model or found.masks.shape == (0, *image.shape[1:])


def test_tta_of_detector_without_nms_keeps_best_mask():
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

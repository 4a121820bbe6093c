"""RepPoints V2 head: losses, gradients and predictions."""

import pytest
import torch
from mmengine.config import Config, ConfigDict
from mmengine.registry import MODELS, DefaultScope
from mmengine.structures import InstanceData

from mmflatten.models.detection.verification import corner_boxes, refine_corners

STRIDES = [8, 16, 32]
SIZE = (64, 96)
LEVELS = [(SIZE[0] // stride, SIZE[1] // stride) for stride in STRIDES]
PLACES = sum(height * width for height, width in LEVELS)
META = dict(
    img_shape=SIZE, pad_shape=SIZE, batch_input_shape=SIZE, ori_shape=SIZE, scale_factor=(1.0, 1.0)
)
CONFIG = Config(
    dict(
        type='mmflatten.RepPointsV2Head',
        num_classes=3,
        in_channels=16,
        feat_channels=16,
        point_feat_channels=16,
        corner_channels=8,
        stacked_convs=1,
        point_strides=STRIDES,
        norm_cfg=dict(type='GN', num_groups=4),
        train_cfg=dict(
            init=dict(assigner=dict(type='PointAssigner', scale=4, pos_num=1)),
            refine=dict(assigner=dict(type='ATSSAssigner', topk=9)),
        ),
        test_cfg=dict(
            nms_pre=50, score_thr=0.0, nms=dict(type='nms', iou_threshold=0.6), max_per_img=20
        ),
    )
)


def build(**settings):
    torch.manual_seed(0)
    with DefaultScope.overwrite_default_scope('mmdet'):
        head = MODELS.build(ConfigDict(CONFIG.to_dict(), **settings))
    head.init_weights()
    return head


def features(batch: int) -> tuple[torch.Tensor, ...]:
    generator = torch.Generator().manual_seed(1)
    return tuple(torch.randn(batch, 16, *size, generator=generator) for size in LEVELS)


def truth(*boxes, labels=None) -> InstanceData:
    return InstanceData(
        bboxes=torch.tensor(boxes).float().view(-1, 4),
        labels=torch.tensor(labels or [0] * len(boxes), dtype=torch.long),
    )


def losses_of(head, *truths) -> dict[str, torch.Tensor]:
    losses = head.loss_by_feat(*head(features(len(truths))), list(truths), [META] * len(truths))
    return {
        name: sum(value) if isinstance(value, list) else value for name, value in losses.items()
    }


@pytest.mark.parametrize(
    'truths',
    [
        (
            truth((8, 8, 50, 40), (20, 10, 90, 60), labels=[0, 2]),
            truth((30, 5, 70, 50), labels=[1]),
        ),
        (truth(), truth((30, 5, 70, 50))),
        (truth(), truth()),
    ],
    ids=['objects', 'one image without', 'none'],
)
def test_reppoints_v2_losses_are_finite_without_objects(truths):
    losses = losses_of(build().train(), *truths)
    assert set(losses) == {
        'loss_cls',
        'loss_pts_init',
        'loss_pts_refine',
        'loss_corner',
        'loss_offset',
        'loss_foreground',
    }
    assert all(torch.isfinite(loss) for loss in losses.values())
    if not any(len(image) for image in truths):
        assert losses['loss_offset'] == 0


def test_reppoints_v2_trains_every_parameter():
    head = build().train()
    losses = losses_of(
        head, truth((8, 8, 50, 40), (20, 10, 90, 60), labels=[0, 2]), truth((30, 5, 70, 50))
    )
    sum(losses.values()).backward()
    for name, parameter in head.named_parameters():
        assert parameter.grad is not None and torch.isfinite(parameter.grad).all(), name
        assert parameter.grad.any(), name


def test_reppoints_v2_learns_verification():
    """On one image the losses of verification fall, and the predicted corners are those of the
    box.
    """
    head, box = build().train(), (16, 8, 80, 56)
    optimizer = torch.optim.Adam(head.parameters(), lr=1e-2)
    history = []
    for _ in range(40):
        losses = losses_of(head, truth(box))
        history.append({name: float(loss) for name, loss in losses.items()})
        optimizer.zero_grad()
        (losses['loss_corner'] + losses['loss_offset'] + losses['loss_foreground']).backward()
        optimizer.step()
    for name in ('loss_corner', 'loss_foreground'):
        assert history[-1][name] < 0.2 * history[0][name], name
    corners, offsets = (part[0] for part in head(features(1))[3:5])
    for kind, (row, column) in enumerate(((1, 2), (7, 10))):
        assert corners[0, kind].argmax() == row * LEVELS[0][1] + column


def test_reppoints_v2_predicts_boxes_inside_image():
    head = build().eval()
    with torch.no_grad():
        outputs = head(features(2))
        found = head.predict_by_feat(*outputs, batch_img_metas=[META] * 2)
    assert [tuple(scores.shape[1:]) for scores in outputs[0]] == [(3, *size) for size in LEVELS]
    assert [tuple(boxes.shape[1:]) for boxes in outputs[1]] == [(4, *size) for size in LEVELS]
    for image in found:
        assert 0 < len(image.bboxes) == len(image.scores) == len(image.labels)
        assert (image.bboxes >= 0).all()
        assert (image.bboxes <= torch.tensor([96.0, 64.0, 96.0, 64.0])).all()


@torch.no_grad()
def test_reppoints_v2_refines_boxes_with_corners_of_finer_level():
    head = build()
    head.corner_score_outs[0].bias.fill_(2.0)
    _, boxes = head.eval()(features(2))
    _, _, points, corners, offsets, _ = head.train()(features(2))
    plain = [corner_boxes(level) for level in points]
    torch.testing.assert_close(boxes[0], plain[0])
    for level, scale in ((1, 2), (2, 4)):
        torch.testing.assert_close(
            boxes[level], refine_corners(plain[level], corners[0], offsets[0], scale)
        )


def losses_at(points, scores, *truths, meta=META) -> dict[str, torch.Tensor]:
    """Compute losses if every level predicts these points, `(18,)` per position, and these class
    logits.
    """
    head, batch = build().train(), len(truths)
    with torch.no_grad():
        *_, corners, offsets, foregrounds = head(features(batch))
    levels = [points(row, column, stride) for stride, (row, column) in zip(STRIDES, LEVELS)]
    levels = [level.expand(batch, -1, -1, -1).clone().requires_grad_() for level in levels]
    logits = [scores.view(1, -1, 1, 1).expand(batch, -1, *size) for size in LEVELS]
    return head.loss_by_feat(
        logits, levels, levels, corners, offsets, foregrounds, list(truths), [meta] * batch
    )


def pointing_at(box, swap=False):
    """Predict points at every position: the first two are corners of the box, the others are far
    away.
    """

    def points(height, width, stride):
        y, x = torch.meshgrid(torch.arange(height), torch.arange(width), indexing='ij')
        first = [box[1] / stride - y, box[0] / stride - x]
        second = [box[3] / stride - y, box[2] / stride - x]
        if swap:
            first, second = second, first
        return torch.stack([*first, *second, *[torch.full_like(first[0], 99.0)] * 14])

    return points


@pytest.mark.parametrize('swap', [False, True])
def test_reppoints_v2_box_loss_is_giou_of_first_two_points(swap):
    box, half = (16.0, 8.0, 56.0, 40.0), (16.0, 8.0, 36.0, 40.0)
    exact = losses_at(pointing_at(box, swap), torch.zeros(3), truth(box))
    assert exact['loss_pts_init'] < 1e-5 and exact['loss_pts_refine'] < 1e-5
    loss = losses_at(pointing_at(half, swap), torch.zeros(3), truth(box))
    # IoU 0.5; enclosing box = union
    torch.testing.assert_close(loss['loss_pts_init'], torch.tensor(0.5))
    torch.testing.assert_close(loss['loss_pts_refine'], torch.tensor(1.0))  # loss weight 2


def test_reppoints_v2_class_quality_is_iou_of_refined_box():
    box, half = (16.0, 8.0, 56.0, 40.0), (16.0, 8.0, 36.0, 40.0)
    sure = torch.tensor([-20.0, 0.0, -20.0])  # probability 0.5 for class 1, which equals the IoU
    loss = losses_at(pointing_at(half), sure, truth(box, labels=[1]))['loss_cls']
    # Positions of the object have no loss, all others `background`. The sum is divided by the
    # former.
    background = 0.25 * torch.log(torch.tensor(2.0))
    number = PLACES * background / (loss + background)
    assert 1 <= round(float(number)) <= 3 * 9
    torch.testing.assert_close(number, number.round(), rtol=0, atol=1e-4)


def test_reppoints_v2_ignores_padding():
    points, logits = pointing_at((8.0, 8.0, 40.0, 40.0)), torch.zeros(3)
    padded = losses_at(points, logits, truth(), meta=dict(META, pad_shape=(SIZE[0], 48)))[
        'loss_cls'
    ]
    inside = 8 * 6 + 4 * 3 + 2 * 2
    torch.testing.assert_close(
        padded, losses_at(points, logits, truth())['loss_cls'] * inside / PLACES
    )


@pytest.mark.parametrize('setting', [dict(use_grid_points=True), dict(center_init=False)])
def test_reppoints_v2_rejects_options_of_version_1(setting):
    with pytest.raises(ValueError, match='use_grid_points, center_init'):
        build(**setting)

"""RepPoints V2's head: its targets on boxes made by hand, its losses and gradients, its predictions."""
import pytest
import torch
from mmengine.config import Config, ConfigDict
from mmengine.registry import MODELS, DefaultScope
from mmengine.structures import InstanceData

from mmflatten.models.detection.verification import (
    corner_targets,
    foreground_weights,
    normalized_focal_loss,
    refine_corners,
)

STRIDES = [8, 16, 32]
SIZE = (64, 96)
LEVELS = [(SIZE[0] // stride, SIZE[1] // stride) for stride in STRIDES]
META = dict(img_shape=SIZE, pad_shape=SIZE, batch_input_shape=SIZE, ori_shape=SIZE, scale_factor=(1., 1.))
CONFIG = Config(dict(
    type='mmflatten.RepPointsV2Head', num_classes=3, in_channels=16, feat_channels=16, point_feat_channels=16,
    corner_channels=8, stacked_convs=1, point_strides=STRIDES, norm_cfg=dict(type='GN', num_groups=4),
    train_cfg=dict(
        init=dict(assigner=dict(type='PointAssigner', scale=4, pos_num=1), pos_weight=-1, allowed_border=-1),
        refine=dict(assigner=dict(type='MaxIoUAssigner', pos_iou_thr=0.5, neg_iou_thr=0.4, min_pos_iou=0),
                    pos_weight=-1, allowed_border=-1)),
    test_cfg=dict(nms_pre=50, score_thr=0., nms=dict(type='nms', iou_threshold=0.5), max_per_img=20)))


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
    return InstanceData(bboxes=torch.tensor(boxes).float().view(-1, 4),
                        labels=torch.tensor(labels or [0] * len(boxes), dtype=torch.long))


def losses_of(head, *truths) -> dict[str, torch.Tensor]:
    losses = head.loss_by_feat(*head(features(len(truths))), list(truths), [META] * len(truths))
    return {name: sum(value) if isinstance(value, list) else value for name, value in losses.items()}


def test_corners_are_marked_in_their_cells_with_their_offsets():
    box = torch.tensor([[12., 20., 60., 44.]])  # in cells of 8: 1.5, 2.5 and 7.5, 5.5
    heatmaps, offsets, is_corner = corner_targets(box, LEVELS[0], 8, min_iou=0.7)
    assert heatmaps.shape == (2, 8, 12) and offsets.shape == (4, 8, 12)
    assert is_corner.nonzero().tolist() == [[0, 2, 1], [1, 5, 7]]
    assert offsets[:, 2, 1].tolist() == [0.5, 0.5, 0, 0] and offsets[:, 5, 7].tolist() == [0, 0, 0.5, 0.5]
    assert heatmaps.max() == 1 and (heatmaps[0] > 0).sum() == is_corner[0].sum(), 'a small box has no bump'


def test_a_large_box_has_a_bump_that_falls_off_around_its_corner():
    box = torch.tensor([[160., 160., 480., 480.]])
    heatmap = corner_targets(box, (64, 64), 8, min_iou=0.7)[0][0]
    row = heatmap[20, 20:]
    bump = row[row > 0]
    assert len(bump) > 2 and (bump.diff() < 0).all()
    torch.testing.assert_close(heatmap, heatmap.t())


def test_corners_outside_of_the_map_are_marked_at_its_border():
    is_corner = corner_targets(torch.tensor([[-5., 0., 96., 64.]]), LEVELS[0], 8, min_iou=0.7)[2]
    assert is_corner.nonzero().tolist() == [[0, 0, 0], [1, 7, 11]]


def test_foreground_is_inside_of_the_boxes_of_a_class_and_every_box_weighs_one():
    boxes = torch.tensor([[8., 8., 40., 24.], [48., 8., 56., 16.]])
    weights = foreground_weights(boxes, torch.tensor([2, 0]), LEVELS[0], 8, num_classes=3)
    assert weights[2].nonzero().tolist() == [[y, x] for y in (1, 2, 3) for x in (1, 2, 3, 4, 5)]
    assert weights[0].nonzero().tolist() == [[1, 6], [1, 7], [2, 6], [2, 7]] and not weights[1].any()
    torch.testing.assert_close(weights.sum((1, 2)), torch.tensor([1., 0., 1.]))


def test_a_point_in_two_boxes_of_a_class_has_the_weight_of_the_smaller():
    large, small = [0., 0., 88., 56.], [16., 16., 24., 24.]
    expected = foreground_weights(torch.tensor([small]), torch.tensor([1]), LEVELS[0], 8, 2)[1, 2, 2]
    for boxes in ([large, small], [small, large]):
        weights = foreground_weights(torch.tensor(boxes), torch.tensor([1, 1]), LEVELS[0], 8, 2)
        assert weights[1, 2, 2] == expected == 1 / 4


def test_a_box_between_the_points_or_off_the_map_is_no_foreground():
    boxes = torch.tensor([[9., 9., 15., 15.], [-30., -30., -10., -10.], [200., 200., 240., 240.]])
    assert not foreground_weights(boxes, torch.zeros(3, dtype=torch.long), LEVELS[0], 8, 1).any()


def test_the_loss_of_the_foreground_counts_objects_alike_whatever_their_size():
    weights = torch.zeros(1, 10, 10)
    weights[0, :4, :5], weights[0, 9, 9] = 1 / 20, 1.
    logits = torch.full((1, 10, 10), -2.)
    gain = []
    for found in ((slice(0, 4), slice(0, 5)), (9, 9)):
        better = logits.clone()
        better[0][found] = 2.
        gain.append(normalized_focal_loss(logits, weights, 2., 0.25) - normalized_focal_loss(better, weights, 2., 0.25))
    torch.testing.assert_close(*gain)
    assert gain[0] > 0


def test_without_objects_the_loss_of_the_foreground_is_that_of_its_false_alarms():
    logits = torch.tensor([[0., -20.]])
    expected = 0.75 * torch.log(torch.tensor(2.)) * 0.5 ** 2
    torch.testing.assert_close(normalized_focal_loss(logits, torch.zeros(1, 2), 2., 0.25), expected)


def test_a_corner_moves_to_the_verified_corner_next_to_it_and_else_stays():
    logits = torch.full((1, 2, 8, 12), -30.)
    logits[0, 0, 3, 4] = 30.
    offsets = torch.zeros(1, 4, 8, 12)
    offsets[0, :2, 3, 4] = torch.tensor([0.25, 0.75])
    boxes = torch.zeros(1, 4, 8, 12)
    # The point at row 5, column 6 predicts 3.6, 2.9 (next to the corner's cell) and 8, 7.
    boxes[0, :, 5, 6] = torch.tensor([3.6 - 6, 2.9 - 5, 2., 2.])
    boxes[0, :, 0, 11] = torch.tensor([-2., 0., 0., 1.])
    refined = refine_corners(boxes, logits, offsets)
    torch.testing.assert_close(refined[0, :, 5, 6], torch.tensor([4.25 - 6, 3.75 - 5, 2., 2.]))
    torch.testing.assert_close(refined[0, :, 0, 11], boxes[0, :, 0, 11])


def test_an_unsure_corner_is_followed_by_the_share_of_its_score():
    boxes, offsets = torch.zeros(1, 4, 3, 3), torch.zeros(1, 4, 3, 3)
    logits = torch.full((1, 2, 3, 3), -30.)
    logits[0, 1, 2, 2] = 0.
    refined = refine_corners(boxes, logits, offsets)
    torch.testing.assert_close(refined[0, 2:, 1, 1], torch.tensor([0.5, 0.5]))
    torch.testing.assert_close(refined[0, 2:, 0, 0], torch.zeros(2))


@pytest.mark.parametrize('truths', [
    (truth((8, 8, 50, 40), (20, 10, 90, 60), labels=[0, 2]), truth((30, 5, 70, 50), labels=[1])),
    (truth(), truth((30, 5, 70, 50))),
    (truth(), truth()),
], ids=['objects', 'one image without', 'none'])
def test_losses_are_finite_with_and_without_objects(truths):
    losses = losses_of(build().train(), *truths)
    assert set(losses) == {'loss_cls', 'loss_pts_init', 'loss_pts_refine', 'loss_corner', 'loss_offset',
                           'loss_foreground'}
    assert all(torch.isfinite(loss) for loss in losses.values())
    if not any(len(image) for image in truths):
        assert losses['loss_offset'] == 0


def test_gradients_reach_every_parameter():
    head = build().train()
    losses = losses_of(head, truth((8, 8, 50, 40), (20, 10, 90, 60), labels=[0, 2]), truth((30, 5, 70, 50)))
    sum(losses.values()).backward()
    for name, parameter in head.named_parameters():
        assert parameter.grad is not None and torch.isfinite(parameter.grad).all(), name
        assert parameter.grad.any(), name


def test_verification_is_learned():
    """On one image the verification's losses fall, and the corners found are the box's."""
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


def test_predictions_are_boxes_in_the_image():
    head = build().eval()
    with torch.no_grad():
        outputs = head(features(2))
        found = head.predict_by_feat(*outputs, batch_img_metas=[META] * 2)
    assert [tuple(scores.shape[1:]) for scores in outputs[0]] == [(3, *size) for size in LEVELS]
    assert [tuple(boxes.shape[1:]) for boxes in outputs[1]] == [(4, *size) for size in LEVELS]
    for image in found:
        assert 0 < len(image.bboxes) == len(image.scores) == len(image.labels)
        assert (image.bboxes >= 0).all() and (image.bboxes <= torch.tensor([96., 64., 96., 64.])).all()


@torch.no_grad()
def test_predicted_boxes_are_the_refined_points_with_their_corners_verified():
    head = build()
    head.corner_score_outs[0].bias.fill_(2.)
    _, boxes = head.eval()(features(2))
    _, _, points, corners, offsets, _ = head.train()(features(2))
    for level in range(len(STRIDES)):
        plain = head.points2bbox(points[level])
        expected = refine_corners(plain, corners[level], offsets[level])
        torch.testing.assert_close(boxes[level], expected)
        assert (expected - plain)[:, :2].abs().max() > 10 * (expected - plain)[:, 2:].abs().max() > 0


@pytest.mark.parametrize('setting', [dict(use_grid_points=True), dict(center_init=False)])
def test_settings_that_only_version_1_has_are_refused(setting):
    with pytest.raises(ValueError, match='use_grid_points=False and center_init=True'):
        build(**setting)

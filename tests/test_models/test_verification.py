"""Verification tasks of RepPoints V2: corners and foreground of given boxes."""

import pytest
import torch

from mmflatten.models.detection.verification import (
    corner_boxes,
    corner_targets,
    foreground_weights,
    normalized_focal_loss,
    refine_corners,
)

MAP = (8, 12)


def test_corner_boxes_accept_points_in_either_order():
    # y, x, y, x and more
    points = torch.tensor([3.0, -1.0, 5.0, 4.0, 9.0, 9.0, -9.0, -9.0]).view(1, 8, 1, 1)
    for first_two in ((0, 1, 2, 3), (2, 3, 0, 1), (0, 3, 2, 1)):
        shuffled = points[:, [*first_two, 4, 5, 6, 7]]
        assert corner_boxes(shuffled).flatten().tolist() == [-1, 3, 4, 5]


def test_corner_targets_mark_nearest_points_with_offsets():
    box = torch.tensor(
        [[12.0, 22.0, 61.0, 42.0]]
    )  # in cells of 8 pixels: 1.5, 2.75 and 7.625, 5.25
    heatmaps, offsets, is_corner = corner_targets(box, MAP, 8, min_iou=0.7)
    assert heatmaps.shape == (2, 8, 12) and offsets.shape == (4, 8, 12)
    assert is_corner.nonzero().tolist() == [[0, 3, 2], [1, 5, 8]]
    assert offsets[:, 3, 2].tolist() == [-0.5, -0.25, 0, 0]
    assert offsets[:, 5, 8].tolist() == [
        0,
        0,
        -0.375,
        0.25,
    ]
    assert heatmaps.max() == 1 and (heatmaps[0] > 0).sum() == is_corner[0].sum(), (
        'Gaussian of one cell'
    )


def test_corner_targets_of_large_box_are_gaussian():
    box = torch.tensor([[160.0, 160.0, 480.0, 480.0]])
    heatmap = corner_targets(box, (64, 64), 8, min_iou=0.7)[0][0]
    row = heatmap[20, 20:]
    values = row[row > 0]
    assert len(values) > 2 and (values.diff() < 0).all()
    torch.testing.assert_close(heatmap, heatmap.t())


def test_corner_targets_clamp_to_map():
    is_corner = corner_targets(torch.tensor([[-5.0, 0.0, 96.0, 64.0]]), MAP, 8, min_iou=0.7)[2]
    assert is_corner.nonzero().tolist() == [[0, 0, 0], [1, 7, 11]]


def test_foreground_weights_sum_to_one_per_box():
    boxes = torch.tensor([[8.0, 8.0, 40.0, 24.0], [48.0, 8.0, 56.0, 16.0]])
    weights = foreground_weights(boxes, torch.tensor([2, 0]), MAP, 8, num_classes=3)
    inside = torch.zeros_like(weights[2], dtype=torch.bool)
    inside[1:4, 1:6] = True
    assert torch.equal(weights[2] != 0, inside)
    assert weights[0].nonzero().tolist() == [[1, 6], [1, 7], [2, 6], [2, 7]]
    assert not weights[1].any()
    torch.testing.assert_close(weights.sum((1, 2)), torch.tensor([1.0, 0.0, 1.0]))


def test_foreground_weights_prefer_smaller_box():
    large, small = [0.0, 0.0, 88.0, 56.0], [16.0, 16.0, 24.0, 24.0]
    expected = foreground_weights(torch.tensor([small]), torch.tensor([1]), MAP, 8, 2)[1, 2, 2]
    for boxes in ([large, small], [small, large]):
        weights = foreground_weights(torch.tensor(boxes), torch.tensor([1, 1]), MAP, 8, 2)
        assert weights[1, 2, 2] == expected == 1 / 4


def test_foreground_weights_ignore_boxes_without_points():
    boxes = torch.tensor(
        [[9.0, 9.0, 15.0, 15.0], [-30.0, -30.0, -10.0, -10.0], [200.0, 200.0, 240.0, 240.0]]
    )
    assert not foreground_weights(boxes, torch.zeros(3, dtype=torch.long), MAP, 8, 1).any()


def test_foreground_loss_is_independent_of_object_size():
    weights = torch.zeros(1, 10, 10)
    weights[0, :4, :5], weights[0, 9, 9] = 1 / 20, 1.0
    logits = torch.full((1, 10, 10), -2.0)
    gain = []
    for place in ((slice(0, 4), slice(0, 5)), (9, 9)):
        better = logits.clone()
        better[0][place] = 2.0
        gain.append(
            normalized_focal_loss(logits, weights, 2.0, 0.25)
            - normalized_focal_loss(better, weights, 2.0, 0.25)
        )
    torch.testing.assert_close(*gain)
    assert gain[0] > 0


def test_foreground_loss_without_objects_is_background_loss():
    logits = torch.tensor([[0.0, -20.0]])
    expected = 0.75 * torch.log(torch.tensor(2.0)) * 0.5**2
    torch.testing.assert_close(
        normalized_focal_loss(logits, torch.zeros(1, 2), 2.0, 0.25), expected
    )


def corner_maps(*marked, kinds=2) -> tuple[torch.Tensor, torch.Tensor]:
    """Return logits and offsets of a map with corners, each given as kind, row, column, logit,
    offset x and y.
    """
    logits, offsets = torch.full((1, kinds, *MAP), -30.0), torch.zeros(1, 2 * kinds, *MAP)
    for kind, row, column, logit, *offset in marked:
        logits[0, kind, row, column] = logit
        offsets[0, 2 * kind : 2 * kind + 2, row, column] = torch.tensor(offset)
    return logits, offsets


@pytest.mark.parametrize('scale', [1, 2])
def test_refine_corners_uses_best_of_four_points(scale):
    # The corner is at 4.6, 3.9 in cells of the finer map, between columns 4, 5 and rows 3, 4.
    # Column 6 is too far.
    logits, offsets = corner_maps(
        (0, 3, 5, 1.0, 0.25, -0.5), (0, 4, 4, 0.0, 0.0, 0.0), (0, 3, 6, 9.0, 0.0, 0.0)
    )
    boxes = torch.zeros(1, 4, MAP[0] // scale, MAP[1] // scale)
    boxes[0, :2, 1, 2] = torch.tensor([4.6 / scale - 2, 3.9 / scale - 1])
    refined = refine_corners(boxes, logits, offsets, scale)
    torch.testing.assert_close(
        refined[0, :2, 1, 2], torch.tensor([5.25 / scale - 2, 2.5 / scale - 1])
    )


def test_refine_corners_separates_corner_kinds():
    logits, offsets = corner_maps((0, 2, 3, 9.0, 0.5, 0.0), (1, 6, 7, 9.0, 0.0, 0.25))
    boxes = torch.tensor([2.5, 1.5, 7.5, 6.5]).view(1, 4, 1, 1)
    assert refine_corners(boxes, logits, offsets, 1).flatten().tolist() == [3.5, 2.0, 7.0, 6.25]


@pytest.mark.parametrize(
    'corner, expected',
    [((-5.0, -9.0), (0.0, 0.0)), ((40.0, 40.0), (11.0, 7.0)), ((11.5, 3.0), (11.0, 3.0))],
)
def test_refine_corners_clamps_to_map(corner, expected):
    logits, offsets = corner_maps((0, int(expected[1]), int(expected[0]), 9.0, 0.0, 0.0))
    boxes = torch.tensor([*corner, 0.0, 0.0]).view(1, 4, 1, 1)
    assert refine_corners(boxes, logits, offsets, 1)[0, :2].flatten().tolist() == list(expected)

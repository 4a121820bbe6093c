"""Verification tasks of RepPoints V2: locations of box corners, and the foreground of each
class.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from mmdet.models.utils import gaussian_radius, gen_gaussian_target
from torch import Tensor


def corner_boxes(points_B2nHW: Tensor) -> Tensor:
    """Return boxes `(B, 4, H, W)` whose opposite corners are the first two points. Points are
    stored as y, x.
    """
    first = points_B2nHW[:, [1, 0]]
    second = points_B2nHW[:, [3, 2]]
    return torch.cat((torch.minimum(first, second), torch.maximum(first, second)), dim=1)


def corner_targets(
    boxes_N4: Tensor, size: tuple[int, int], stride: int, min_iou: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Compute the training targets of corners: heatmaps and offsets of top-left and bottom-right
    corners.

    Args:
        boxes_N4: left, top, right, bottom in pixels of the image.
        size: (H, W) of the map.
        stride: pixels per cell of the map.
        min_iou: the radius of a Gaussian is such that a corner moved by it still gives a box of
            this IoU.

    Returns:
        Heatmaps `(2, H, W)`: Gaussians with the value 1 at the cells closest to corners.
        Offsets `(4, H, W)` in cells, from the point of such a cell to its corner: x, y of top-left
        corners, then x, y of bottom-right corners. The point of cell (i, j) is
        `(i * stride, j * stride)`. Mask `(2, H, W)` of the cells closest to corners.
    """
    height, width = size
    heatmaps = boxes_N4.new_zeros(2, height, width)
    offsets = boxes_N4.new_zeros(4, height, width)
    for left, top, right, bottom in (boxes_N4 / stride).tolist():
        radius = int(gaussian_radius((bottom - top, right - left), min_overlap=min_iou))
        radius = max(0, radius)
        for kind, (x, y) in enumerate(((left, top), (right, bottom))):
            # The cell closest to the corner, inside the map.
            column = min(max(round(x), 0), width - 1)
            row = min(max(round(y), 0), height - 1)
            gen_gaussian_target(heatmaps[kind], (column, row), radius)
            offset = offsets.new_tensor((x - column, y - row))
            offsets[2 * kind : 2 * kind + 2, row, column] = offset
    return heatmaps, offsets, heatmaps == 1


def foreground_weights(
    boxes_N4: Tensor, labels_N: Tensor, size: tuple[int, int], stride: int, num_classes: int
) -> Tensor:
    """Compute foreground weights `(C, H, W)`: 0 outside the boxes of a class, and 1 / (cells in the
    box) inside.

    Cells in several boxes of a class belong to the smallest of them. `stride` is in pixels per
    cell.
    """
    weights = boxes_N4.new_zeros(num_classes, *size)
    for (left, top, right, bottom), label in zip((boxes_N4 / stride).tolist(), labels_N.tolist()):
        rows = slice(max(0, math.ceil(top)), max(0, math.floor(bottom) + 1))
        columns = slice(max(0, math.ceil(left)), max(0, math.floor(right) + 1))
        inside = weights[label, rows, columns]
        # The smallest box of a cell has the largest weight.
        inside.clamp_(min=1 / max(1, inside.numel()))
    return weights


def normalized_focal_loss(logits: Tensor, weights: Tensor, gamma: float, alpha: float) -> Tensor:
    """Compute a focal loss in which objects of all sizes have the same weight.

    Args:
        logits: logits of any shape.
        weights: weights of the same shape, 0 for background.
        gamma: focusing parameter, which reduces the loss of well-classified points.
        alpha: weight of the foreground; the background has `1 - alpha`.
    """
    is_object = weights > 0
    loss = F.binary_cross_entropy_with_logits(logits, is_object.to(logits.dtype), reduction='none')
    loss = loss * (1 - torch.exp(-loss)) ** gamma  # exp(-loss) is the probability of the true class
    objects = (loss * weights).sum() / weights.sum().clamp(min=1e-6)
    background = (loss * ~is_object).sum() / is_object.sum().clamp(min=1)
    return alpha * objects + (1 - alpha) * background


def refine_corners(
    boxes_B4HW: Tensor, corner_logits_B2HW: Tensor, offsets_B4HW: Tensor, scale: float
) -> Tensor:
    """Move the corners of predicted boxes to verified corners nearby, detected on a finer level.

    Among the 2 x 2 points around a predicted corner, the point with the highest corner logit
    determines the result.

    Args:
        boxes_B4HW: left, top, right, bottom relative to the point of each cell, in cells.
        corner_logits_B2HW: logits of top-left and bottom-right corners on the finer level.
        offsets_B4HW: offsets from the points of the finer level to their corners, in its cells.
        scale: cells of the finer level per cell of the level of the boxes.
    """
    finer_height, finer_width = corner_logits_B2HW.shape[2:]
    # The best of each 2 x 2 points, as an index into maps padded by a column and a row.
    padded = F.pad(corner_logits_B2HW, (0, 1, 0, 1), value=-torch.inf)
    best_of_4 = F.max_pool2d(padded, 2, stride=1, return_indices=True)[1]

    # The point of each cell of the boxes, x and y.
    height, width = boxes_B4HW.shape[2:]
    row = torch.arange(height, device=padded.device, dtype=boxes_B4HW.dtype)
    column = torch.arange(width, device=padded.device, dtype=boxes_B4HW.dtype)
    point = torch.stack(torch.broadcast_tensors(column, row[:, None]))

    moved = []
    for kind in range(2):
        channels = slice(2 * kind, 2 * kind + 2)
        # The cell of the finer level at the top left of the predicted corner.
        cell = ((boxes_B4HW[:, channels] + point) * scale).floor().long()
        cell_row = cell[:, 1].clamp(0, finer_height - 1)
        cell_column = cell[:, 0].clamp(0, finer_width - 1)
        index = cell_row * finer_width + cell_column

        # The best of the four points around the corner, and its offset.
        best = best_of_4[:, kind].flatten(1).gather(1, index.flatten(1))
        best_row = best // (finer_width + 1)
        # ONNX has no remainder by a width that is open.
        best_column = best - best_row * (finer_width + 1)
        best_index = best_row * finer_width + best_column
        offset = offsets_B4HW[:, channels].flatten(2)
        offset = offset.gather(2, best_index[:, None].expand(-1, 2, -1))

        verified = (torch.stack((best_column, best_row), dim=1) + offset) / scale
        moved.append(verified.view(-1, 2, *index.shape[1:]) - point)
    return torch.cat(moved, dim=1)

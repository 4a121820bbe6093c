"""Suppression and overlaps of boxes (x1, y1, x2, y2), and the suppression of lanes.

With `offset` 1 a box includes its last pixel, so its width is `x2 - x1 + 1`, as in mmdet 1 and
Caffe.
"""

from __future__ import annotations

import numpy as np
import torch
import torchvision
from torch import Tensor

from mmcv_torch_ops.precision import single

_PAIRS = 2**22  # pairs of boxes that are compared at once: 16 MiB in float32


def nms(boxes: Tensor, scores: Tensor, iou_threshold: float, offset: int) -> Tensor:
    """Return the indices of the boxes that are kept, best score first.

    A box is dropped if its IoU with a better kept one is above `iou_threshold`. Boxes of equal
    score keep their order.

    Args:
        boxes: (N, 4), and `scores` (N,), on any device.
    """
    _check_boxes('nms', boxes=(boxes, 4))
    if scores.shape != boxes.shape[:1]:
        raise ValueError(
            f'nms: scores must have shape ({len(boxes)},) for {len(boxes)} boxes, '
            f'got {tuple(scores.shape)}'
        )
    boxes, scores = single(boxes, scores)
    if offset:
        boxes = torch.cat((boxes[:, :2], boxes[:, 2:] + offset), 1)
    return torchvision.ops.nms(boxes, scores, _single(iou_threshold))


def softnms(
    boxes: Tensor,
    scores: Tensor,
    dets: Tensor,
    iou_threshold: float,
    sigma: float,
    min_score: float,
    method: int,
    offset: int,
) -> Tensor:
    """Return the indices of the boxes in the order of their decayed scores, on the CPU.

    Soft-NMS (Bodla et al., ICCV 2017, arXiv:1704.04503) picks the best box and lowers the scores of
    those that overlap it, until none is left; a box whose score falls below `min_score` is dropped.
    Each pick depends on the ones before, so they are a loop; what a pick does to the other boxes is
    one product of arrays. Of equal scores the first in the input is picked. Two boxes without area
    do not overlap. As in mmcv, the time grows with the square of N.

    Args:
        boxes: (N, 4), and `scores` (N,).
        dets: (N, 5), its first rows are filled with the picked boxes and their decayed scores.
        method: 0 drops boxes of an IoU of at least `iou_threshold`, 1 multiplies their scores by 1
            - IoU, 2 multiplies all scores by exp(-IoU^2 / sigma).
    """
    _check_boxes('soft_nms', boxes=(boxes, 4))
    boxes, scores = single(boxes, scores)
    if method not in (0, 1, 2):
        raise ValueError(
            f'soft_nms: method must be 0 (naive), 1 (linear) or 2 (gaussian), got {method}'
        )

    def decays(chosen: slice) -> np.ndarray:
        iou = _overlaps(boxes[chosen, None], boxes, offset).nan_to_num(0)
        if method == 2:
            return (-(iou * iou) / sigma).exp().numpy()
        factor = 1 - iou if method == 1 else 0
        return torch.where(iou >= _single(iou_threshold), factor, 1).numpy()

    matrix = decays(slice(None)) if len(boxes) ** 2 <= _PAIRS else None
    current = scores.numpy().copy()
    done = np.zeros(len(boxes), bool)
    picked = []
    picked_scores = []
    with np.errstate(invalid='ignore'):  # -inf * 0, of boxes that are done
        while not done.all():
            best = int(current.argmax())
            if current[best] == -np.inf:
                break
            picked.append(best)
            picked_scores.append(current[best])
            done[best] = True
            current *= decays(slice(best, best + 1))[0] if matrix is None else matrix[best]
            done |= current < min_score
            current[done] = -np.inf
    indices = torch.tensor(picked, dtype=torch.long)
    dets[: len(picked), :4] = boxes[indices].to(dets.dtype)
    dets[: len(picked), 4] = torch.tensor(picked_scores, dtype=dets.dtype)
    return indices


def nms_match(dets: Tensor, iou_threshold: float) -> list[list[int]]:
    """Return the groups that NMS forms: each kept box with those it suppresses, indices by falling
    score.

    A box joins the best kept box with which its IoU is at least `iou_threshold`. As in mmcv, the
    time grows with the square of N: 10,000 boxes take about a second, 100,000 more than a minute.

    Args:
        dets: (N, 5), boxes and scores.
    """
    _check_boxes('nms_match', dets=(dets, 5))
    order = dets[:, 4].argsort(descending=True, stable=True)
    (ordered,) = single(dets[order, :4])
    number = len(order)
    # torchvision drops boxes above a threshold, mmcv those at it, too.
    below = float(np.nextafter(np.float32(iou_threshold), np.float32(-np.inf)))
    falling = torch.arange(number, 0, -1, dtype=ordered.dtype)
    kept = torchvision.ops.nms(ordered, falling, below)

    # The owner of a box is the best kept box that suppresses it; `number` stands for none.
    owners = torch.full_like(order, number)
    place = torch.arange(number)
    for some in kept.split(max(1, _PAIRS // max(1, number))):
        after = int(some[0])  # a kept box suppresses later ones alone
        close = _overlaps(ordered[some, None], ordered[after:], offset=0) >= _single(iou_threshold)
        close &= place[after:] > some[:, None]
        first = torch.where(close, some[:, None], number).amin(0)
        owners[after:] = torch.minimum(owners[after:], first)
    owners[kept] = kept

    by_owner = order[owners.argsort(stable=True)]
    _, sizes = owners.unique(return_counts=True)
    return [group.tolist() for group in by_owner.split(sizes.tolist()) if len(group)]


def bbox_overlaps(
    bboxes1: Tensor, bboxes2: Tensor, ious: Tensor, mode: int, aligned: bool, offset: int
) -> None:
    """Write the IoU, or with `mode` 1 the intersection over the area of the first box, into `ious`.

    Args:
        bboxes1: (M, 4), and `bboxes2` (N, 4).
        ious: (M, N), or (M,) with `aligned`, which pairs the boxes one by one.
    """
    _check_boxes('bbox_overlaps', bboxes1=(bboxes1, 4), bboxes2=(bboxes2, 4))
    first = bboxes1 if aligned else bboxes1[:, None]
    ious.copy_(_overlaps(first, bboxes2, offset, foreground=mode == 1))


def line_nms_forward(boxes: Tensor, scores: Tensor, overlap: float, top_k: int) -> list[Tensor]:
    """Suppress lanes whose mean horizontal distance to a better one is below `overlap`.

    A lane has five numbers, of which the third is its start (0 to 1) and the fifth its length in
    points, and the x of its points. Source: CLRNet (Zheng et al., CVPR 2022, arXiv:2203.10350).
    mmcv's CUDA kernel compares the right lanes only if they come sorted by score; these are sorted
    here.

    Returns:
        Indices of the kept lanes, padded with zeros to N; their number; and for each lane 1 + the
        position, in that list, of the last lane that covers it, or 0.
    """
    device = boxes.device
    order = scores.argsort(descending=True, stable=True)
    close = _close_lanes(boxes[order], overlap)
    kept = _greedy(close).nonzero()[:top_k, 0]
    keep = torch.cat((order[kept], order.new_zeros(len(boxes) - len(kept))))

    # A kept lane covers itself and those that it suppresses.
    number = torch.zeros(len(boxes), dtype=torch.long, device=device)
    number[kept] = torch.arange(1, len(kept) + 1, device=device)
    covers = close | torch.eye(len(boxes), dtype=torch.bool, device=device)
    parent = torch.zeros_like(order)
    if len(boxes):
        parent[order] = (covers * number[:, None]).amax(0)
    return [keep, torch.tensor(len(kept), device=device), parent]


def _overlaps(first: Tensor, second: Tensor, offset: int, foreground: bool = False) -> Tensor:
    """Return the IoU of boxes that broadcast, or their intersection over the area of the first."""
    left, top, right, bottom = first.unbind(-1)
    other_left, other_top, other_right, other_bottom = second.unbind(-1)
    width = torch.minimum(right, other_right) - torch.maximum(left, other_left) + offset
    height = torch.minimum(bottom, other_bottom) - torch.maximum(top, other_top) + offset
    inter = width.clamp(min=0) * height.clamp(min=0)
    area = (right - left + offset) * (bottom - top + offset)
    if foreground:
        return inter / area
    other_area = (other_right - other_left + offset) * (other_bottom - other_top + offset)
    return inter / (area + other_area - inter)


def _close_lanes(lanes: Tensor, overlap: float) -> Tensor:
    """Return a mask (N, N), set for a lane and a later one if they are close to each other."""
    points = lanes.shape[1] - 5
    first = (lanes[:, 2] * (points - 1) + 0.5).to(torch.long)
    last = first + lanes[:, 4].to(torch.long) - 1
    # The points that both lanes have.
    start = torch.maximum(first[:, None], first)
    end = torch.minimum(last[:, None], last).clamp(max=points - 1)
    place = torch.arange(points, device=lanes.device)
    shared = (place >= start[..., None]) & (place <= end[..., None])
    distance = ((lanes[:, None, 5:] - lanes[:, 5:]).abs() * shared).sum(-1)
    close = (distance < overlap * (end - start + 1)) & (end >= start) & (start >= 0)
    return close.triu(1)


def _greedy(suppresses: Tensor) -> Tensor:
    """Return which rows greedy suppression keeps, in order; `suppresses[i, j]` is set for i < j
    alone.

    A row is kept if no kept row suppresses it. Repeating this for all rows at once settles, because
    a row depends on earlier ones alone; it takes as many rounds as the longest chain of
    suppressions.
    """
    counted = suppresses.float()  # a product with a matrix is much faster than `any`
    keep = counted.new_ones(len(counted))
    while True:
        settled = (keep @ counted == 0).float()
        if torch.equal(settled, keep):
            return keep.bool()
        keep = settled


def _single(number: float) -> float:
    """Return a threshold in float32, in which mmcv compares: an IoU of exactly 0.6 is not above
    0.6.
    """
    return float(np.float32(number))


def _check_boxes(operator: str, **boxes: tuple[Tensor, int]) -> None:
    for name, (tensor, columns) in boxes.items():
        if tensor.dim() != 2 or tensor.shape[1] != columns:
            raise ValueError(
                f'{operator}: {name} must have shape (N, {columns}), got {tuple(tensor.shape)}'
            )

"""RepPoints V2 with operators that runtimes have."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mmflatten.export.detection.boxes import (
    Candidates,
    Suppression,
    best_candidates,
    clip,
    join,
    limit,
    results,
    suppress,
    take,
    without_small,
)
from mmflatten.export.detection.dense import class_scores, rows
from mmflatten.models.layers import map_shape
from mmflatten.ops.sizes import is_open

LONGEST_MAP = 1024  # cells of a side, for images of 4096 pixels and a stride of 4


class RepPointsV2Head(nn.Module):
    """Boxes at every position of the maps, refined by corners.

    Deformable convolutions and corner pooling of the head are replaced by equal modules that can
    be exported.
    """

    def __init__(self, head: nn.Module, test_cfg: Any) -> None:
        super().__init__()
        from mmcv.ops import CornerPool, DeformConv2d

        for name, module in list(head.named_modules()):
            if isinstance(module, DeformConv2d):
                head.set_submodule(name, DeformableConvolution(module))
            elif isinstance(module, CornerPool):
                head.set_submodule(name, RunningMaximum(module.mode))
        self.head = head
        self.stride = max(head.point_strides)
        self.settings = test_cfg
        self.suppression = Suppression.of(test_cfg, 'model.test_cfg')
        self.score_threshold = test_cfg.score_thr
        self.max_boxes = self.suppression.max_boxes

    def forward(self, features: Sequence[Tensor], size: tuple[int, int]) -> Candidates:
        """Return boxes in pixels of the image of size (H, W), scores and labels."""
        levels = []
        for level, (logits, boxes) in enumerate(zip(*self.head(features))):
            scores, index, labels = best_candidates(
                class_scores(self.head, rows(logits, self.head.cls_out_channels)),
                threshold=self.score_threshold,
                number=self.settings.get('nms_pre', -1),
            )
            stride = self.head.point_strides[level]
            place = (points(boxes) * stride)[index]
            boxes = take(rows(boxes, 4), index) * stride + torch.cat((place, place), dim=-1)
            levels.append(Candidates(clip(boxes, size), scores, labels))
        candidates = without_small(join(levels), self.settings.get('min_bbox_size', -1))
        return results(suppress(candidates, self.suppression))


def points(maps: Tensor) -> Tensor:
    """Return x and y of each cell, `(H * W, 2)`."""
    height, width = map_shape(maps)
    x = torch.arange(width, dtype=maps.dtype)
    y = torch.arange(height, dtype=maps.dtype)
    return torch.stack(torch.broadcast_tensors(x, y[:, None]), dim=-1).flatten(0, 1)


class DeformableConvolution(nn.Module):
    """mmcv's `DeformConv2d` of stride 1, as bilinear samples and a convolution of 1 x 1.

    Source: Deformable Convolutional Networks (arXiv:1703.06211), equations 2 and 3.
    """

    def __init__(self, conv: nn.Module) -> None:
        super().__init__()
        self.weight = conv.weight
        self.kernel_size = conv.kernel_size
        self.padding = conv.padding
        self.dilation = conv.dilation
        options = (conv.stride, conv.groups, conv.deform_groups)
        if options != ((1, 1), 1, 1):
            raise ValueError(
                f'stride, groups, deform_groups: expected (1, 1), 1, 1, got {options}.'
            )

    def forward(self, x_BCHW: Tensor, offset_B2KHW: Tensor) -> Tensor:
        height, width = map_shape(x_BCHW)
        num_rows, num_columns = self.kernel_size
        row = torch.arange(num_rows) * self.dilation[0] - self.padding[0]
        column = torch.arange(num_columns) * self.dilation[1] - self.padding[1]
        # The places of the samples in cells, (B, K, H, W).
        y = offset_B2KHW[:, 0::2] + row.repeat_interleave(num_columns)[:, None, None]
        x = offset_B2KHW[:, 1::2] + column.repeat(num_rows)[:, None, None]
        y = y + torch.arange(height, dtype=y.dtype)[:, None]
        x = x + torch.arange(width, dtype=x.dtype)
        grid = torch.stack((_relative(x, width), _relative(y, height)), dim=-1)
        samples = F.grid_sample(
            x_BCHW, grid.flatten(1, 2), padding_mode='zeros', align_corners=False
        )
        samples = samples.unflatten(2, (num_rows * num_columns, height)).flatten(1, 2)
        return F.conv2d(samples, self.weight.flatten(1)[..., None, None])


def _relative(place: Tensor, cells: int) -> Tensor:
    """Convert places in cells to those of `grid_sample`, from -1 to 1."""
    return (2 * place + 1) / limit(cells, place) - 1


class RunningMaximum(nn.Module):
    """Corner pooling: the maximum of all cells up to each one, in steps of 1, 4, 16, ... cells.

    Source: CornerNet (arXiv:1808.01244), equation 5.

    Args:
        mode: `top` and `left` take the maximum of the cells below and on the right, `bottom` and
            `right` of those above and on the left.
    """

    def __init__(self, mode: str) -> None:
        super().__init__()
        self.dim = 2 if mode in ('top', 'bottom') else 3
        self.is_reversed = mode in ('top', 'left')

    def forward(self, x_BCHW: Tensor) -> Tensor:
        length = x_BCHW.shape[self.dim]
        longest = LONGEST_MAP if is_open(length) else length
        step = 1
        while step < longest:
            x_BCHW = self._maximum_of_four(x_BCHW, step)
            step *= 4
        return x_BCHW

    def _maximum_of_four(self, x_BCHW: Tensor, step: int) -> Tensor:
        """Return the maximum of each cell and of those 1, 2 and 3 steps before it."""
        added = (0, 3 * step) if self.is_reversed else (3 * step, 0)
        if self.dim == 2:
            padded = F.pad(x_BCHW, (0, 0, *added), value=-torch.inf)
            return F.max_pool2d(padded, (4, 1), stride=1, dilation=(step, 1))
        padded = F.pad(x_BCHW, added, value=-torch.inf)
        return F.max_pool2d(padded, (1, 4), stride=1, dilation=(1, step))

"""Explicit references of stereo matching."""

from __future__ import annotations

import torch
from torch import Tensor


def concat_cost_volume(left_BCHW: Tensor, right_BCHW: Tensor, num_shifts: int) -> Tensor:
    """Reference of `mmflatten.ops.concat_cost_volume`, column by column."""
    zeros = left_BCHW.new_zeros(*left_BCHW.shape[:1], 2 * left_BCHW.shape[1], left_BCHW.shape[2])
    shifts = []
    for d in range(num_shifts):
        columns = []
        for x in range(left_BCHW.shape[-1]):
            if x < d:
                columns.append(zeros)
            else:
                columns.append(torch.cat((left_BCHW[..., x], right_BCHW[..., x - d]), 1))
        shifts.append(torch.stack(columns, -1))
    return torch.stack(shifts, 2)


def soft_argmax_disparity(score_BDHW: Tensor) -> Tensor:
    """Reference of `mmflatten.ops.soft_argmax_disparity`."""
    weights_BDHW = (score_BDHW - score_BDHW.amax(1, keepdim=True)).exp()
    weights = weights_BDHW.unbind(1)
    moments = [d * weight for d, weight in enumerate(weights)]
    return torch.stack(moments).sum(0) / torch.stack(weights).sum(0)

"""Multi-scale deformable attention, by the PyTorch function that mmcv has for the CPU."""

from __future__ import annotations

import torch
from torch import Tensor


def ms_deform_attn_forward(
    value: Tensor,
    value_spatial_shapes: Tensor,
    value_level_start_index: Tensor,
    sampling_locations: Tensor,
    attention_weights: Tensor,
    im2col_step: int,
) -> Tensor:
    """Return the attention of Deformable DETR (Zhu et al., ICLR 2021, arXiv:2010.04159), (N,
    queries, heads * width).

    Args:
        value: (N, keys, heads, width), the keys of all levels one after the other.
        value_spatial_shapes: (levels, 2), height and width of each level.
        sampling_locations: (N, queries, heads, levels, points, 2), x and y from 0 to 1.
        attention_weights: (N, queries, heads, levels, points).
        value_level_start_index, im2col_step: arguments of mmcv's kernels, not used.
    """
    from mmcv.ops.multi_scale_deform_attn import multi_scale_deformable_attn_pytorch

    return multi_scale_deformable_attn_pytorch(
        value, value_spatial_shapes, sampling_locations, attention_weights
    )


def ms_deform_attn_backward(
    value: Tensor,
    value_spatial_shapes: Tensor,
    value_level_start_index: Tensor,
    sampling_locations: Tensor,
    attention_weights: Tensor,
    grad_output: Tensor,
    grad_value: Tensor,
    grad_sampling_loc: Tensor,
    grad_attn_weight: Tensor,
    im2col_step: int,
) -> None:
    """Write the gradients of values, locations and weights; the forward pass is computed again.

    Exactly one pixel outside of a level, the value is 0 and the slope is not defined. As in mmcv's
    kernel, it is 0.
    """
    with torch.enable_grad():
        value = value.detach().requires_grad_()
        locations = sampling_locations.detach().requires_grad_()
        weights = attention_weights.detach().requires_grad_()
        output = ms_deform_attn_forward(
            value,
            value_spatial_shapes,
            value_level_start_index,
            sampling_locations=locations,
            attention_weights=weights,
            im2col_step=im2col_step,
        )
        of_value, of_locations, of_weights = torch.autograd.grad(
            output, (value, locations, weights), grad_output
        )
    sides = value_spatial_shapes.flip(1)[:, None]  # width and height of each level
    position = sampling_locations * sides - 0.5
    inside = ((position > -1) & (position < sides)).all(-1, keepdim=True)
    grad_value.copy_(of_value)
    grad_sampling_loc.copy_(torch.where(inside, of_locations, 0))
    grad_attn_weight.copy_(of_weights)

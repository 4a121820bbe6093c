"""Deformable convolutions v1 and v2, by torchvision's operator."""

from __future__ import annotations

import torch
import torchvision  # noqa: F401  registers torch.ops.torchvision
from torch import Tensor

from mmcv_torch_ops.precision import single
from mmcv_torch_ops.sampling import FAR

# mmcv names the sizes of the two versions differently; pairs of sizes are (height, width) here.


def deform_conv_forward(
    input: Tensor,
    weight: Tensor,
    offset: Tensor,
    output: Tensor,
    columns: Tensor,
    ones: Tensor,
    kW: int,
    kH: int,
    dW: int,
    dH: int,
    padW: int,
    padH: int,
    dilationW: int,
    dilationH: int,
    group: int,
    deformable_group: int,
    im2col_step: int,
) -> None:
    """Write the deformable convolution (Dai et al., ICCV 2017, arXiv:1703.06211) into `output`.

    Args:
        input: (N, C, H, W), and `weight` (D, C / group, kH, kW).
        offset: (N, 2 * deformable_group * kH * kW, OH, OW), y before x for each tap.
        output: (N, D, OH, OW).
        columns, ones, im2col_step: scratch space and step of mmcv's kernels, not used.

    A tap whose offset is NaN gives NaN, and no gradient.
    """
    _check(
        'deform_conv',
        input,
        offset,
        weight,
        (dH, dW, dilationH, dilationW),
        group,
        deformable_group,
        output,
    )
    input, weight, offset = single(input, weight, offset)
    offset, mask = _known(offset)
    output.copy_(
        torch.ops.torchvision.deform_conv2d(
            input,
            weight,
            offset,
            mask,
            input.new_zeros(len(weight)),
            dH,
            dW,
            padH,
            padW,
            dilationH,
            dilationW,
            group,
            deformable_group,
            True,
        )
    )


def deform_conv_backward_input(
    input: Tensor,
    offset: Tensor,
    gradOutput: Tensor,
    gradInput: Tensor,
    gradOffset: Tensor,
    weight: Tensor,
    columns: Tensor,
    kW: int,
    kH: int,
    dW: int,
    dH: int,
    padW: int,
    padH: int,
    dilationW: int,
    dilationH: int,
    group: int,
    deformable_group: int,
    im2col_step: int,
) -> None:
    """Write the gradients of input and offsets.

    torchvision's operator computes the gradient of the weight too. It is kept in `columns`, the
    scratch tensor that mmcv passes to this function and then to `deform_conv_backward_parameters`.
    """
    gradients = _gradients(
        input,
        weight,
        offset,
        gradOutput,
        (dH, dW, padH, padW, dilationH, dilationW),
        group,
        deformable_group,
    )
    gradInput.copy_(gradients[0])
    gradOffset.copy_(gradients[2])
    columns.resize_(weight.shape).copy_(gradients[1])


def deform_conv_backward_parameters(
    input: Tensor,
    offset: Tensor,
    gradOutput: Tensor,
    gradWeight: Tensor,
    columns: Tensor,
    ones: Tensor,
    kW: int,
    kH: int,
    dW: int,
    dH: int,
    padW: int,
    padH: int,
    dilationW: int,
    dilationH: int,
    group: int,
    deformable_group: int,
    scale: float,
    im2col_step: int,
) -> None:
    """Write the gradient of the weight, which `deform_conv_backward_input` has left in `columns` if
    it was called.
    """
    if columns.shape != gradWeight.shape:
        columns = _gradients(
            input,
            gradWeight,
            offset,
            gradOutput,
            (dH, dW, padH, padW, dilationH, dilationW),
            group,
            deformable_group,
        )[1]
    gradWeight.copy_(columns * scale)


def modulated_deform_conv_forward(
    input: Tensor,
    weight: Tensor,
    bias: Tensor,
    ones: Tensor,
    offset: Tensor,
    mask: Tensor,
    output: Tensor,
    columns: Tensor,
    kernel_h: int,
    kernel_w: int,
    stride_h: int,
    stride_w: int,
    pad_h: int,
    pad_w: int,
    dilation_h: int,
    dilation_w: int,
    group: int,
    deformable_group: int,
    with_bias: bool,
) -> None:
    """Write the modulated deformable convolution (Zhu et al., CVPR 2019, arXiv:1811.11168) into
    `output`.

    Args:
        mask: (N, deformable_group * kH * kW, OH, OW), a factor for each tap.
        bias: (D,), used with `with_bias`.
        input, weight, offset, output: as in `deform_conv_forward`.
    """
    _check(
        'modulated_deform_conv',
        input,
        offset,
        weight,
        (stride_h, stride_w, dilation_h, dilation_w),
        group,
        deformable_group,
        output,
    )
    input, weight, offset, mask, bias = single(input, weight, offset, mask, bias)
    offset, mask = _known(offset, mask)
    output.copy_(
        torch.ops.torchvision.deform_conv2d(
            input,
            weight,
            offset,
            mask,
            bias if with_bias else input.new_zeros(len(weight)),
            stride_h,
            stride_w,
            pad_h,
            pad_w,
            dilation_h,
            dilation_w,
            group,
            deformable_group,
            True,
        )
    )


def modulated_deform_conv_backward(
    input: Tensor,
    weight: Tensor,
    bias: Tensor,
    ones: Tensor,
    offset: Tensor,
    mask: Tensor,
    columns: Tensor,
    grad_input: Tensor,
    grad_weight: Tensor,
    grad_bias: Tensor,
    grad_offset: Tensor,
    grad_mask: Tensor,
    grad_output: Tensor,
    kernel_h: int,
    kernel_w: int,
    stride_h: int,
    stride_w: int,
    pad_h: int,
    pad_w: int,
    dilation_h: int,
    dilation_w: int,
    group: int,
    deformable_group: int,
    with_bias: bool,
) -> None:
    """Write the gradients of input, weight, bias, offsets and mask."""
    sizes = (stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w)
    gradients = _gradients(input, weight, offset, grad_output, sizes, group, deformable_group, mask)
    for target, gradient in zip((grad_input, grad_weight, grad_offset, grad_mask), gradients):
        target.copy_(gradient)
    if with_bias:
        grad_bias.copy_(gradients[4])


def _gradients(
    input: Tensor,
    weight: Tensor,
    offset: Tensor,
    grad_output: Tensor,
    sizes: tuple[int, ...],
    group: int,
    deformable_group: int,
    mask: Tensor | None = None,
) -> tuple[Tensor, ...]:
    """Return the gradients of input, weight, offset, mask and bias; `sizes` are strides, paddings
    and dilations.
    """
    factors = input.new_zeros(len(input), 1) if mask is None else mask
    grad_output, input, weight, offset, factors = single(
        grad_output, input, weight, offset, factors
    )
    known, _ = _known(offset)
    grad_input, grad_weight, grad_offset, *others = torch.ops.torchvision._deform_conv2d_backward(
        grad_output,
        input,
        weight,
        known,
        factors,
        input.new_zeros(len(weight)),
        *sizes,
        group,
        deformable_group,
        mask is not None,
    )
    inside = _inside(offset, tuple(weight.shape[2:]), sizes, tuple(input.shape[2:]))
    return grad_input, grad_weight, torch.where(inside, grad_offset, 0), *others


def _known(offset: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Return offsets that move taps at NaN out of the image, and a mask of the taps that is NaN
    there.

    torchvision's kernel converts positions to whole numbers. On the CPU, NaN becomes one far
    outside of the memory.
    """
    lost = offset.isnan()
    lost_taps = lost[:, ::2] | lost[:, 1::2]
    factors = torch.ones_like(lost_taps, dtype=offset.dtype) if mask is None else mask
    return offset.masked_fill(lost, FAR), factors.masked_fill(lost_taps, torch.nan)


def _inside(
    offset: Tensor, kernel: tuple[int, int], sizes: tuple[int, ...], image: tuple[int, int]
) -> Tensor:
    """Return a mask, in the shape of `offset`, of the taps that are less than one pixel outside of
    the image.

    Exactly one pixel outside, the value is 0 and the slope is not defined. torchvision takes the
    slope towards the image, mmcv takes 0. This matters: the offsets of a new layer are zero, and
    with padding 1 every tap in the padding is exactly there.
    """
    positions = offset.unflatten(1, (-1, *kernel, 2))  # (N, G, kH, kW, 2, OH, OW)
    inside = torch.ones_like(positions[:, :, :, :, :1], dtype=torch.bool)
    for axis, (stride, padding, dilation) in enumerate(zip(sizes[:2], sizes[2:4], sizes[4:])):
        tap = torch.arange(kernel[axis], device=offset.device) * dilation - padding
        start = torch.arange(offset.shape[2 + axis], device=offset.device) * stride
        place = (
            (tap[:, None, None, None], start[:, None]) if axis == 0 else (tap[:, None, None], start)
        )
        position = positions[:, :, :, :, axis] + place[0] + place[1]
        inside &= ((position > -1) & (position < image[axis]))[:, :, :, :, None]
    return inside.expand_as(positions).flatten(1, 4)


def _check(
    operator: str,
    input: Tensor,
    offset: Tensor,
    weight: Tensor,
    steps: tuple[int, ...],
    group: int,
    deformable_group: int,
    output: Tensor,
) -> None:
    if min(*steps, group, deformable_group) < 1:
        raise ValueError(
            f'{operator}: strides, dilations and groups must be positive, got {steps[:2]},'
            f' {steps[2:]} and {group}, {deformable_group}'
        )
    expected = (
        len(input),
        2 * deformable_group * weight.shape[2] * weight.shape[3],
        *output.shape[2:],
    )
    if offset.shape != expected:
        raise ValueError(
            f'{operator}: offset must have shape {tuple(expected)}, two numbers for each of the '
            f'{weight.shape[2]} x {weight.shape[3]} taps of {deformable_group} groups, '
            f'got {tuple(offset.shape)}'
        )

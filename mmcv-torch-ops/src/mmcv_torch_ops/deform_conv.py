"""Deformable convolutions v1 and v2, by torchvision's operator."""

from __future__ import annotations

from typing import NamedTuple

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
    sizes = _Sizes(
        stride=(dH, dW),
        padding=(padH, padW),
        dilation=(dilationH, dilationW),
        group=group,
        deformable_group=deformable_group,
    )
    _check('deform_conv', input=input, offset=offset, weight=weight, output=output, sizes=sizes)
    input, weight, offset = single(input, weight, offset)
    offset, mask = _known(offset)
    bias = input.new_zeros(len(weight))
    output.copy_(_convolved(input, weight, offset=offset, mask=mask, bias=bias, sizes=sizes))


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
    sizes = _Sizes(
        stride=(dH, dW),
        padding=(padH, padW),
        dilation=(dilationH, dilationW),
        group=group,
        deformable_group=deformable_group,
    )
    gradients = _gradients(input, weight, offset=offset, grad_output=gradOutput, sizes=sizes)
    gradInput.copy_(gradients.input)
    gradOffset.copy_(gradients.offset)
    columns.resize_(weight.shape).copy_(gradients.weight)


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
        sizes = _Sizes(
            stride=(dH, dW),
            padding=(padH, padW),
            dilation=(dilationH, dilationW),
            group=group,
            deformable_group=deformable_group,
        )
        # The gradient of a weight does not depend on its values.
        gradients = _gradients(input, gradWeight, offset, grad_output=gradOutput, sizes=sizes)
        columns = gradients.weight
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
    sizes = _Sizes(
        stride=(stride_h, stride_w),
        padding=(pad_h, pad_w),
        dilation=(dilation_h, dilation_w),
        group=group,
        deformable_group=deformable_group,
    )
    _check(
        'modulated_deform_conv',
        input=input,
        offset=offset,
        weight=weight,
        output=output,
        sizes=sizes,
    )
    input, weight, offset, mask, bias = single(input, weight, offset, mask, bias)
    offset, mask = _known(offset, mask)
    if not with_bias:
        bias = input.new_zeros(len(weight))
    output.copy_(_convolved(input, weight, offset=offset, mask=mask, bias=bias, sizes=sizes))


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
    sizes = _Sizes(
        stride=(stride_h, stride_w),
        padding=(pad_h, pad_w),
        dilation=(dilation_h, dilation_w),
        group=group,
        deformable_group=deformable_group,
    )
    gradients = _gradients(
        input, weight, offset=offset, grad_output=grad_output, sizes=sizes, mask=mask
    )
    grad_input.copy_(gradients.input)
    grad_weight.copy_(gradients.weight)
    grad_offset.copy_(gradients.offset)
    grad_mask.copy_(gradients.mask)
    if with_bias:
        grad_bias.copy_(gradients.bias)


class _Sizes(NamedTuple):
    """Numbers of a deformable convolution; pairs are (height, width)."""

    stride: tuple[int, int]
    padding: tuple[int, int]
    dilation: tuple[int, int]
    group: int
    deformable_group: int

    def arguments(self) -> dict[str, int]:
        """Return the arguments of torchvision's operators."""
        return dict(
            stride_h=self.stride[0],
            stride_w=self.stride[1],
            pad_h=self.padding[0],
            pad_w=self.padding[1],
            dilation_h=self.dilation[0],
            dilation_w=self.dilation[1],
            groups=self.group,
            offset_groups=self.deformable_group,
        )


class _Gradients(NamedTuple):
    """Gradients of a modulated deformable convolution, in the order of torchvision's operator."""

    input: Tensor
    weight: Tensor
    offset: Tensor
    mask: Tensor
    bias: Tensor


def _check(
    operator: str, *, input: Tensor, offset: Tensor, weight: Tensor, output: Tensor, sizes: _Sizes
) -> None:
    groups = (sizes.group, sizes.deformable_group)
    if min(*sizes.stride, *sizes.dilation, *groups) < 1:
        raise ValueError(
            f'{operator}: strides, dilations and groups must be positive, got {sizes.stride},'
            f' {sizes.dilation} and {groups[0]}, {groups[1]}'
        )
    kernel_h, kernel_w = weight.shape[2:]
    channels = 2 * sizes.deformable_group * kernel_h * kernel_w
    expected = (len(input), channels, *output.shape[2:])
    if offset.shape != expected:
        raise ValueError(
            f'{operator}: offset must have shape {expected}, two numbers for each of the '
            f'{kernel_h} x {kernel_w} taps of {sizes.deformable_group} groups, '
            f'got {tuple(offset.shape)}'
        )


def _convolved(
    input: Tensor, weight: Tensor, *, offset: Tensor, mask: Tensor, bias: Tensor, sizes: _Sizes
) -> Tensor:
    return torch.ops.torchvision.deform_conv2d(
        input, weight, offset, mask, bias, **sizes.arguments(), use_mask=True
    )


def _gradients(
    input: Tensor,
    weight: Tensor,
    offset: Tensor,
    *,
    grad_output: Tensor,
    sizes: _Sizes,
    mask: Tensor | None = None,
) -> _Gradients:
    """Return the gradients of input, weight, offset, mask and bias."""
    factors = input.new_zeros(len(input), 1) if mask is None else mask
    grad_output, input, weight, offset, factors = single(
        grad_output, input, weight, offset, factors
    )
    known, _ = _known(offset)
    found = torch.ops.torchvision._deform_conv2d_backward(
        grad_output,
        input,
        weight,
        known,
        factors,
        input.new_zeros(len(weight)),
        **sizes.arguments(),
        use_mask=mask is not None,
    )
    gradients = _Gradients(*found)
    inside = _inside(
        offset, kernel=tuple(weight.shape[2:]), image=tuple(input.shape[2:]), sizes=sizes
    )
    return gradients._replace(offset=torch.where(inside, gradients.offset, 0))


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
    offset: Tensor, kernel: tuple[int, int], image: tuple[int, int], sizes: _Sizes
) -> Tensor:
    """Return a mask, in the shape of `offset`, of the taps that are less than one pixel outside of
    the image.

    Exactly one pixel outside, the value is 0 and the slope is not defined. torchvision takes the
    slope towards the image, mmcv takes 0. This matters: the offsets of a new layer are zero, and
    with padding 1 every tap in the padding is exactly there.
    """
    device = offset.device
    positions = offset.unflatten(1, (-1, *kernel, 2))  # (N, G, kH, kW, 2, OH, OW)
    inside = torch.ones_like(positions[:, :, :, :, :1], dtype=torch.bool)
    # Shapes that place the taps and the pixels of an axis among (kH, kW, OH, OW).
    tap_shapes = ((-1, 1, 1, 1), (-1, 1, 1))
    start_shapes = ((-1, 1), (-1,))
    for axis in range(2):
        tap = torch.arange(kernel[axis], device=device) * sizes.dilation[axis]
        tap = (tap - sizes.padding[axis]).view(tap_shapes[axis])
        start = torch.arange(offset.shape[2 + axis], device=device) * sizes.stride[axis]
        start = start.view(start_shapes[axis])
        position = positions[:, :, :, :, axis] + tap + start
        inside &= ((position > -1) & (position < image[axis]))[:, :, :, :, None]
    return inside.expand_as(positions).flatten(1, 4)

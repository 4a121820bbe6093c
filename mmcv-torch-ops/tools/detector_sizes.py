"""Calls of the operators that mmcv has for the CPU, at the sizes of a small Mask R-CNN on images of
160 x 160.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor


def _boxes(number: int, side: float) -> Tensor:
    start = torch.rand(number, 2) * side * 0.8
    return torch.cat((start, start + torch.rand(number, 2) * side * 0.4), 1)


def _roi_align(pool_mode: int, backward: bool, regions: int, size: int) -> Callable[[Any], None]:
    image = torch.randn(4, 48, 40, 40)
    rois = torch.cat((torch.randint(4, (regions, 1)), _boxes(regions, 160)), 1)
    output = torch.zeros(regions, 48, size, size)
    y = torch.rand_like(output) * 40
    x = torch.rand_like(output) * 40
    options = dict(
        aligned_height=size,
        aligned_width=size,
        spatial_scale=0.25,
        sampling_ratio=0,
        pool_mode=pool_mode,
        aligned=True,
    )
    if backward:
        return lambda ext: ext.roi_align_backward(
            output, rois, y, x, torch.zeros_like(image), **options
        )
    return lambda ext: ext.roi_align_forward(image, rois, output, y, x, **options)


def _convolution(modulated: bool, backward: bool) -> Callable[[Any], None]:
    image = torch.randn(2, 64, 20, 20)
    weight = torch.randn(64, 64, 3, 3)
    offset = torch.randn(2, 18, 20, 20)
    mask = torch.rand(2, 9, 20, 20)
    output = torch.randn(2, 64, 20, 20)
    bias = torch.zeros(64)
    none = torch.zeros(0)
    v1 = dict(
        kW=3,
        kH=3,
        dW=1,
        dH=1,
        padW=1,
        padH=1,
        dilationW=1,
        dilationH=1,
        group=1,
        deformable_group=1,
        im2col_step=2,
    )
    v2 = dict(
        kernel_h=3,
        kernel_w=3,
        stride_h=1,
        stride_w=1,
        pad_h=1,
        pad_w=1,
        dilation_h=1,
        dilation_w=1,
        group=1,
        deformable_group=1,
        with_bias=True,
    )
    if modulated and not backward:
        return lambda ext: ext.modulated_deform_conv_forward(
            image, weight, bias, none.clone(), offset, mask, output, none.clone(), **v2
        )
    if modulated:
        gradients = [torch.zeros_like(part) for part in (image, weight, bias, offset, mask)]
        return lambda ext: ext.modulated_deform_conv_backward(
            image, weight, bias, none.clone(), offset, mask, none.clone(), *gradients, output, **v2
        )
    if not backward:
        return lambda ext: ext.deform_conv_forward(
            image, weight, offset, output, none.clone(), none.clone(), **v1
        )

    def gradients_of(ext: Any) -> None:
        columns = none.clone()
        ext.deform_conv_backward_input(
            image,
            offset,
            output,
            torch.zeros_like(image),
            torch.zeros_like(offset),
            weight,
            columns,
            **v1,
        )
        ext.deform_conv_backward_parameters(
            image, offset, output, torch.zeros_like(weight), columns, none.clone(), scale=1, **v1
        )

    return gradients_of


def _psa_mask() -> Callable[[Any], None]:
    image = torch.randn(2, 39 * 39, 20, 20)
    output = torch.zeros(2, 400, 20, 20)
    return lambda ext: ext.psamask_forward(
        image,
        output,
        psa_type=0,
        num_=2,
        h_feature=20,
        w_feature=20,
        h_mask=39,
        w_mask=39,
        half_h_mask=19,
        half_w_mask=19,
    )


def _suppression(name: str, number: int) -> Callable[[Any], Any]:
    boxes, scores = _boxes(number, 160), torch.rand(number)
    if name == 'nms':
        return lambda ext: ext.nms(boxes, scores, iou_threshold=0.7, offset=0)
    if name == 'nms_match':
        return lambda ext: ext.nms_match(torch.cat((boxes, scores[:, None]), 1), 0.7)
    return lambda ext: ext.softnms(boxes, scores, torch.zeros(number, 5), 0.3, 0.5, 0.05, 1, 0)


def _bbox_overlaps() -> Callable[[Any], None]:
    first, second = _boxes(2000, 160), _boxes(20, 160)
    return lambda ext: ext.bbox_overlaps(first, second, torch.zeros(2000, 20), 0, False, 0)


torch.manual_seed(0)
CALLS: dict[str, Callable[[Any], Any]] = {
    'nms, 525 boxes': _suppression('nms', 525),
    'nms, 2000 boxes': _suppression('nms', 2000),
    'softnms, 500 boxes': _suppression('softnms', 500),
    'nms_match, 500 boxes': _suppression('nms_match', 500),
    'bbox_overlaps, 2000 x 20': _bbox_overlaps(),
    'roi_align, 128 regions, 7 x 7': _roi_align(1, False, 128, 7),
    'roi_align, 128 regions, 7 x 7, backward': _roi_align(1, True, 128, 7),
    'roi_align, 32 regions, 14 x 14': _roi_align(1, False, 32, 14),
    'roi_align max, 128 regions, 7 x 7': _roi_align(0, False, 128, 7),
    'roi_align max, 128 regions, 7 x 7, backward': _roi_align(0, True, 128, 7),
    'deform_conv, 64 channels, 20 x 20': _convolution(False, False),
    'deform_conv, backward': _convolution(False, True),
    'modulated_deform_conv': _convolution(True, False),
    'modulated_deform_conv, backward': _convolution(True, True),
    'psamask, 20 x 20': _psa_mask(),
}

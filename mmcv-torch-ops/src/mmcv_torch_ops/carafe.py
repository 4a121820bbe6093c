"""CARAFE: upsampling by a kernel of its own for each output pixel (Wang et al., ICCV 2019,
arXiv:1905.02188).

Each tap of the kernel is one product over the whole map, so no neighbourhoods are copied out.
"""

from __future__ import annotations

from collections.abc import Iterator

from torch import Tensor
from torch.nn import functional as F


def carafe_naive_forward(
    features: Tensor,
    masks: Tensor,
    output: Tensor,
    kernel_size: int,
    group_size: int,
    scale_factor: int,
) -> None:
    """Write the upsampled map into `output` (N, C, s * H, s * W).

    Args:
        features: (N, C, H, W).
        masks: (N, group_size * kernel_size^2, s * H, s * W), the kernels, each shared by C /
            group_size channels.
    """
    result = _grouped(output.zero_(), group_size, scale_factor)
    for tap, mask in _taps(features, masks, kernel_size, group_size, scale_factor):
        result.addcmul_(tap, mask)


def carafe_naive_backward(
    grad_output: Tensor,
    features: Tensor,
    masks: Tensor,
    grad_input: Tensor,
    grad_masks: Tensor,
    kernel_size: int,
    group_size: int,
    scale_factor: int,
) -> None:
    """Write the gradients of features and masks into `grad_input` and `grad_masks`, which are zero
    before.
    """
    gradient = _grouped(grad_output, group_size, scale_factor)
    padded_gradient = _padded(grad_input, kernel_size).zero_()
    taps = _taps(features, masks, kernel_size, group_size, scale_factor)
    mask_gradients = _taps(
        padded_gradient, grad_masks, kernel_size, group_size, scale_factor, padded=True
    )
    for (tap, mask), (tap_gradient, mask_gradient) in zip(taps, mask_gradients):
        mask_gradient.copy_((gradient * tap).sum(2, keepdim=True))
        tap_gradient.add_((gradient * mask).sum((4, 6), keepdim=True))
    radius = kernel_size // 2
    height, width = grad_input.shape[2:]
    grad_input.copy_(padded_gradient[:, :, radius : radius + height, radius : radius + width])


def carafe_forward(
    features: Tensor,
    masks: Tensor,
    rfeatures: Tensor,
    routput: Tensor,
    rmasks: Tensor,
    output: Tensor,
    kernel_size: int,
    group_size: int,
    scale_factor: int,
) -> None:
    """Write the upsampled map, as `carafe_naive_forward`; `rfeatures` is what mmcv keeps for the
    backward pass.
    """
    rfeatures.copy_(features)
    carafe_naive_forward(features, masks, output, kernel_size, group_size, scale_factor)


def carafe_backward(
    grad_output: Tensor,
    rfeatures: Tensor,
    masks: Tensor,
    rgrad_output: Tensor,
    rgrad_input_hs: Tensor,
    rgrad_input: Tensor,
    rgrad_masks: Tensor,
    grad_input: Tensor,
    grad_masks: Tensor,
    kernel_size: int,
    group_size: int,
    scale_factor: int,
) -> None:
    """Write the gradients, as `carafe_naive_backward`; the other tensors are scratch space of
    mmcv's kernels.
    """
    carafe_naive_backward(
        grad_output, rfeatures, masks, grad_input, grad_masks, kernel_size, group_size, scale_factor
    )


def _taps(
    features: Tensor,
    masks: Tensor,
    kernel_size: int,
    group_size: int,
    scale_factor: int,
    padded: bool = False,
) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield for each tap the shifted features and its factors, as views that broadcast: (N, G, C /
    G, H, s, W, s).
    """
    height, width = (side // scale_factor for side in masks.shape[2:])
    around = features if padded else _padded(features, kernel_size)
    factors = masks.unflatten(1, (group_size, kernel_size, kernel_size))
    for row in range(kernel_size):
        for column in range(kernel_size):
            window = around[:, :, row : row + height, column : column + width]
            window = window.unflatten(1, (group_size, -1))
            factor = _grouped(factors[:, :, row, column], group_size, scale_factor)
            yield window[:, :, :, :, None, :, None], factor


def _padded(features: Tensor, kernel_size: int) -> Tensor:
    return F.pad(features, [kernel_size // 2] * 4)


def _grouped(image: Tensor, group_size: int, scale_factor: int) -> Tensor:
    """View (N, G * C, s * H, s * W) as (N, G, C, H, s, W, s)."""
    return (
        image.unflatten(3, (-1, scale_factor))
        .unflatten(2, (-1, scale_factor))
        .unflatten(1, (group_size, -1))
    )

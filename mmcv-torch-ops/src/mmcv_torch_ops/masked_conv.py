"""The two halves of a convolution that is computed at masked pixels alone; mmcv has no gradient for
it.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F


def masked_im2col_forward(
    im: Tensor,
    mask_h_idx: Tensor,
    mask_w_idx: Tensor,
    col: Tensor,
    kernel_h: int,
    kernel_w: int,
    pad_h: int,
    pad_w: int,
) -> None:
    """Write the neighbourhoods of M pixels into `col` (C * kernel_h * kernel_w, M), for a stride of
    1.

    Args:
        im: (1, C, H, W).
        mask_h_idx, mask_w_idx: (M,), row and column of the pixels.
    """
    # The neighbourhoods of the last pixels end inside of the padding.
    right = max(pad_w, kernel_w - 1 - pad_w)
    bottom = max(pad_h, kernel_h - 1 - pad_h)
    padded = F.pad(im[0], (pad_w, right, pad_h, bottom))
    rows = mask_h_idx + torch.arange(kernel_h, device=im.device)[:, None, None]
    columns = mask_w_idx + torch.arange(kernel_w, device=im.device)[:, None]
    col.copy_(padded[:, rows, columns].flatten(0, 2))


def masked_col2im_forward(
    col: Tensor,
    mask_h_idx: Tensor,
    mask_w_idx: Tensor,
    im: Tensor,
    height: int,
    width: int,
    channels: int,
) -> None:
    """Write the results `col` (C, M) to their M pixels of `im` (1, C, height, width)."""
    im[0, :, mask_h_idx, mask_w_idx] = col

"""The masks of point-wise spatial attention (Zhao et al., PSANet, ECCV 2018)."""

from __future__ import annotations

import torch
from torch import Tensor


def psamask_forward(
    input: Tensor,
    output: Tensor,
    psa_type: int,
    num_: int,
    h_feature: int,
    w_feature: int,
    h_mask: int,
    w_mask: int,
    half_h_mask: int,
    half_w_mask: int,
) -> None:
    """Write attention between all pairs of pixels into `output` (N, H * W, H, W).

    Pixel (h, w) has a window of weights, channel `i * w_mask + j` for the pixel at (h + i -
    half_h_mask, w + j - half_w_mask); pixels outside of the window have 0.

    Args:
        input: (N, h_mask * w_mask, H, W).
        psa_type: 0 (collect) has the other pixel first in `output` and (h, w) last, 1 (distribute)
            the reverse.
    """
    _check(psa_type)
    windows = input.view(num_, h_mask, w_mask, h_feature, w_feature)
    row = torch.arange(h_feature, device=input.device)
    column = torch.arange(w_feature, device=input.device)
    pairs = _gathered(
        windows,
        rows=row[:, None] - row + half_h_mask,
        columns=column[:, None] - column + half_w_mask,
    )
    output.view(pairs.shape).copy_(pairs if psa_type == 0 else pairs.permute(0, 3, 4, 1, 2))


def psamask_backward(
    grad_output: Tensor,
    grad_input: Tensor,
    psa_type: int,
    num_: int,
    h_feature: int,
    w_feature: int,
    h_mask: int,
    w_mask: int,
    half_h_mask: int,
    half_w_mask: int,
) -> None:
    """Write the gradient of the windows into `grad_input` (N, h_mask * w_mask, H, W)."""
    _check(psa_type)
    pairs = grad_output.reshape(num_, h_feature, w_feature, h_feature, w_feature)
    if psa_type == 1:
        pairs = pairs.permute(0, 3, 4, 1, 2)
    device = grad_input.device
    mask_row = torch.arange(h_mask, device=device)[:, None]
    mask_column = torch.arange(w_mask, device=device)[:, None]
    windows = _gathered(
        pairs,
        rows=mask_row + torch.arange(h_feature, device=device) - half_h_mask,
        columns=mask_column + torch.arange(w_feature, device=device) - half_w_mask,
    )
    grad_input.copy_(windows.view(grad_input.shape))


def _gathered(source: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
    """Return (N, A, B, H, W) with `source[n, rows[a, h], columns[b, w], h, w]`, 0 where that is
    outside.

    Args:
        source: (N, R, C, H, W).
        rows: (A, H), and `columns` (B, W).
    """
    _, row_count, column_count, height, width = source.shape
    row_inside = (rows >= 0) & (rows < row_count)
    column_inside = (columns >= 0) & (columns < column_count)
    inside = row_inside[:, None, :, None] & column_inside[None, :, None, :]
    picked = source[
        :,
        rows.clamp(0, row_count - 1)[:, None, :, None],
        columns.clamp(0, column_count - 1)[None, :, None, :],
        torch.arange(height, device=source.device)[:, None],
        torch.arange(width, device=source.device),
    ]
    return picked.masked_fill(~inside, 0)


def _check(psa_type: int) -> None:
    if psa_type not in (0, 1):
        raise ValueError(
            f'psa_mask: psa_type must be 0 (collect) or 1 (distribute), got {psa_type}'
        )

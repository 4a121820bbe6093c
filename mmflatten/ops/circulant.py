"""Circulant attention."""
from __future__ import annotations

import torch
from torch import Tensor

from mmflatten.ops.precision import full_precision


@full_precision
def circulant_attention(q_BNC: Tensor, k_BNC: Tensor, v_BNC: Tensor, *, hw_shape: tuple[int, int]) -> Tensor:
    """Attention whose weights depend only on the offset of two tokens, one head per channel, by Fourier transforms.

    The scores of all offsets are the circular correlation of queries and keys, `a = softmax(corr(q, k) / sqrt(H W))`
    over the offsets. The result is the circular correlation of `a` and the values. Cost: `O(N log N C)`. Source:
    Circulant Attention (AAAI 2026).

    Args:
        q_BNC: queries `(B, N, C)` of a map in row-major order.
        k_BNC: keys of the same map.
        v_BNC: their values.
        hw_shape: `(H, W)` with `H W = N`.

    Returns:
        `(B, N, C)` in the type of `v`.
    """
    if q_BNC.numel() == 0:
        return v_BNC.clone()  # torch.fft rejects empty tensors
    maps = [x.unflatten(1, hw_shape) for x in (q_BNC, k_BNC, v_BNC)]
    q_BHFC, k_BHFC, v_BHFC = (torch.fft.rfft2(x, dim=(1, 2), norm='ortho') for x in maps)
    scores_BHWC = torch.fft.irfft2(q_BHFC.conj() * k_BHFC, s=hw_shape, dim=(1, 2), norm='ortho')
    weights_BHWC = scores_BHWC.flatten(1, 2).softmax(dim=1).unflatten(1, hw_shape)
    weights_BHFC = torch.fft.rfft2(weights_BHWC, dim=(1, 2))
    return torch.fft.irfft2(weights_BHFC.conj() * v_BHFC, s=hw_shape, dim=(1, 2), norm='ortho').flatten(1, 2)

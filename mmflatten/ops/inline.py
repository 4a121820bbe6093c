"""InLine attention."""
from __future__ import annotations

from torch import Tensor

from mmflatten.ops.linear import kernel_product
from mmflatten.ops.precision import full_precision


@full_precision
def inline_attention(q_BhNd: Tensor, k_BhMd: Tensor, v_BhMe: Tensor, *, mean_v_Bh1e: Tensor | None = None) -> Tensor:
    """Linear attention normalised by subtraction, not division, `s q k^T v / M + (1 - s q . mean(k)) mean(v)`.

    `s = d ** -0.5`. The weights of a query sum to 1 and may be negative. Different queries have different weights. No
    feature map is required. Cost: linear in `N` and `M`, see `kernel_product`. Source: Bridging the Divide (Han et al.,
    NeurIPS 2024), eq. 6.

    Args:
        q_BhNd: queries `(B, h, N, d)`.
        k_BhMd: keys `(B, h, M, d)`.
        v_BhMe: values `(B, h, M, e)`.
        mean_v_Bh1e: mean of the values; default: the mean over all `M`.

    Returns:
        `(B, h, N, e)` in the type of `v`.
    """
    scale, M = q_BhNd.shape[-1] ** -.5, k_BhMd.shape[-2]
    mean_v_Bh1e = v_BhMe.mean(dim=-2, keepdim=True) if mean_v_Bh1e is None else mean_v_Bh1e
    rest_BhN1 = 1 - q_BhNd @ k_BhMd.mean(dim=-2).unsqueeze(-1) * scale
    return kernel_product(q_BhNd, k_BhMd, v_BhMe, scale / M) + rest_BhN1 * mean_v_Bh1e

"""Magnitude-aware linear attention."""
from __future__ import annotations

from torch import Tensor

from mmflatten.ops.linear import kernel_product
from mmflatten.ops.precision import full_precision


@full_precision
def magnitude_aware_attention(q_BhNd: Tensor, k_BhMd: Tensor, v_BhMe: Tensor, *, rotated_q_BhNd: Tensor | None = None,
                              rotated_k_BhMd: Tensor | None = None, mean_v_Bh1e: Tensor | None = None,
                              eps: float = 1e-6) -> Tensor:
    """Linear attention that is sharper for longer queries, `(1 + 1 / t) q k^T v / (sqrt(d) M) - t mean(v)`.

    `t = q . mean(k) / sqrt(d)`. The weights of a query sum to 1 and may be negative. Cost: linear in `N` and `M`, see
    `kernel_product`. Source: MALA (Fan et al., ICCV 2025), eqs. 8 to 10.

    Args:
        q_BhNd: mapped queries `(B, h, N, d)`, positive.
        k_BhMd: mapped keys `(B, h, M, d)`, positive.
        v_BhMe: values `(B, h, M, e)`.
        rotated_q_BhNd: queries with rotary positions, used in `q k^T v`; `t` keeps the unrotated ones.
        rotated_k_BhMd: keys with rotary positions, used in `q k^T v`.
        mean_v_Bh1e: mean of the values; default: the mean over all `M`.
        eps: added to `t` in `1 / t`.

    Returns:
        `(B, h, N, e)` in the type of `v`.
    """
    scale, M = q_BhNd.shape[-1] ** -.5, k_BhMd.shape[-2]
    t_BhN1 = q_BhNd @ k_BhMd.mean(dim=-2).unsqueeze(-1) * scale
    q_BhNd = q_BhNd if rotated_q_BhNd is None else rotated_q_BhNd
    k_BhMd = k_BhMd if rotated_k_BhMd is None else rotated_k_BhMd
    mean_v_Bh1e = v_BhMe.mean(dim=-2, keepdim=True) if mean_v_Bh1e is None else mean_v_Bh1e
    return (1 + 1 / (t_BhN1 + eps)) * kernel_product(q_BhNd, k_BhMd, v_BhMe, scale / M) - t_BhN1 * mean_v_Bh1e

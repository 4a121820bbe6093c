"""Explicit references of linear attentions, which form the attention matrix `(B, h, N, M)`."""

from __future__ import annotations

import torch
from torch import Tensor


def linear_attention(
    q_BhNd: Tensor,
    k_BhMd: Tensor,
    v_BhMe: Tensor,
    *,
    eps: float | Tensor = 1e-6,
    min_denominator: float | None = None,
    scale: float | Tensor = 1.0,
    local_BhNe: Tensor | None = None,
    rotated_q_BhNd: Tensor | None = None,
    rotated_k_BhMd: Tensor | None = None,
) -> Tensor:
    """Reference of `mmflatten.ops.linear_attention`."""
    matrix = linear_attention_matrix(q_BhNd, k_BhMd, eps=eps, min_denominator=min_denominator)
    if rotated_q_BhNd is not None and rotated_k_BhMd is not None:
        plain = q_BhNd @ k_BhMd.transpose(-2, -1)
        rotated = rotated_q_BhNd @ rotated_k_BhMd.transpose(-2, -1)
        matrix = matrix * rotated / plain
    out_BhNe = scale * matrix @ v_BhMe
    return out_BhNe if local_BhNe is None else out_BhNe + local_BhNe


def linear_attention_matrix(
    q_BhNd: Tensor,
    k_BhMd: Tensor,
    *,
    eps: float | Tensor = 1e-6,
    min_denominator: float | None = None,
) -> Tensor:
    """The implicit attention matrix of `mmflatten.ops.linear_attention`, `(B, h, N, M)`."""
    scores = q_BhNd @ k_BhMd.transpose(-2, -1)
    total = scores.sum(dim=-1, keepdim=True)
    if min_denominator is not None:
        return scores / total.clamp(min=min_denominator)
    return scores / (total + eps * k_BhMd.shape[-2])


def kernel_product(
    q_BhNd: Tensor, k_BhMd: Tensor, v_BhMe: Tensor, scale: float | Tensor = 1.0
) -> Tensor:
    """Reference of `mmflatten.ops.kernel_product`."""
    return scale * torch.einsum('bhnd,bhmd,bhme->bhne', q_BhNd, k_BhMd, v_BhMe)


def focused_map(x: Tensor, focusing_factor: float) -> Tensor:
    """Reference of `mmflatten.ops.focused_map`."""
    length = x.square().sum(-1, keepdim=True).sqrt()
    return _unit(x**focusing_factor) * length


def cosformer_scores(
    q_BhNd: Tensor, k_BhMd: Tensor, q_shape: tuple[int, int], k_shape: tuple[int, int]
) -> Tensor:
    """Products of tokens under `mmflatten.ops.cosformer_map`, from the cosines of their distances,
    `(B, h, N, M)`.

    Prefix tokens are not supported.
    """
    (H, W), (h, w) = q_shape, k_shape
    q_index, k_index = (torch.arange(n, dtype=q_BhNd.dtype) for n in (H * W, h * w))
    rows = (q_index // W / H)[:, None] - k_index // w / h
    cols = (q_index % W / W)[:, None] - k_index % w / w
    weights = (rows * torch.pi / 2).cos() * (cols * torch.pi / 2).cos()
    return q_BhNd @ k_BhMd.transpose(-2, -1) * weights


def hydra_attention(q_BNC: Tensor, k_BMC: Tensor, v_BMC: Tensor) -> Tensor:
    """Reference of `mmflatten.ops.hydra_attention`: one head and one `(N, M)` matrix per
    channel.
    """
    q_BCN, k_BCM = _unit(q_BNC).transpose(1, 2), _unit(k_BMC).transpose(1, 2)
    matrix_BCNM = q_BCN[..., None] * k_BCM[:, :, None]
    y_BCN = (matrix_BCNM @ v_BMC.transpose(1, 2)[..., None])[..., 0]
    return y_BCN.transpose(1, 2)


def angular_attention(
    q_BhNd: Tensor, k_BhMd: Tensor, v_BhMe: Tensor, *, own_BhNe: Tensor | None = None
) -> Tensor:
    """Reference of `mmflatten.ops.angular_attention`."""
    scores = _unit(q_BhNd) @ _unit(k_BhMd).transpose(-2, -1) / torch.pi
    return _unit((v_BhMe if own_BhNe is None else own_BhNe) / 2 + scores @ v_BhMe)


def _unit(x: Tensor) -> Tensor:
    return x / x.square().sum(-1, keepdim=True).sqrt()


def sima_attention(q_BhNd: Tensor, k_BhMd: Tensor, v_BhMe: Tensor) -> Tensor:
    """Reference of `mmflatten.ops.sima_attention`."""
    q_BhNd, k_BhMd = (x / x.abs().sum(-2, keepdim=True) for x in (q_BhNd, k_BhMd))
    return (q_BhNd @ k_BhMd.transpose(-2, -1)) @ v_BhMe


def inline_attention(
    q_BhNd: Tensor, k_BhMd: Tensor, v_BhMe: Tensor, *, mean_v_Bh1e: Tensor | None = None
) -> Tensor:
    """Reference of `mmflatten.ops.inline_attention`."""
    scores = q_BhNd @ k_BhMd.transpose(-2, -1) * q_BhNd.shape[-1] ** -0.5
    rest = 1 - scores.mean(-1, keepdim=True)
    if mean_v_Bh1e is None:
        return (scores + rest) / scores.shape[-1] @ v_BhMe
    return scores / scores.shape[-1] @ v_BhMe + rest * mean_v_Bh1e


def magnitude_aware_attention(
    q_BhNd: Tensor,
    k_BhMd: Tensor,
    v_BhMe: Tensor,
    *,
    rotated_q_BhNd: Tensor | None = None,
    rotated_k_BhMd: Tensor | None = None,
    mean_v_Bh1e: Tensor | None = None,
    eps: float = 1e-6,
) -> Tensor:
    """Reference of `mmflatten.ops.magnitude_aware_attention`: weights `beta q . k - gamma`."""
    M = k_BhMd.shape[-2]
    plain = q_BhNd @ k_BhMd.transpose(-2, -1) * q_BhNd.shape[-1] ** -0.5
    total = plain.mean(-1, keepdim=True)
    rotated_q = q_BhNd if rotated_q_BhNd is None else rotated_q_BhNd
    rotated_k = k_BhMd if rotated_k_BhMd is None else rotated_k_BhMd
    rotated = rotated_q @ rotated_k.transpose(-2, -1) * q_BhNd.shape[-1] ** -0.5
    beta = (1 + 1 / (total + eps)) / M
    if mean_v_Bh1e is None:
        return (beta * rotated - total / M) @ v_BhMe
    return beta * rotated @ v_BhMe - total * mean_v_Bh1e


def block_linear_attention(
    q_BhNd: Tensor,
    k_BhMd: Tensor,
    v_BhMe: Tensor,
    *,
    mixing_bb: Tensor,
    hw_shape: tuple[int, int],
    kv_shape: tuple[int, int],
    eps: float = 1e-6,
    own_sum: bool = True,
) -> Tensor:
    """Reference of `mmflatten.ops.block_linear_attention`: scores of token pairs times the weight
    of their blocks.
    """
    side = round(mixing_bb.shape[0] ** 0.5)
    N, M = q_BhNd.shape[-2], k_BhMd.shape[-2]
    query_N, place_N = _blocks_and_places(N, hw_shape, side)
    key_M, _ = _blocks_and_places(M, kv_shape, side)
    # Products with prefix tokens have the weight 1.
    is_prefix_NM = (query_N[:, None] < 0) | (key_M < 0)
    weights_NM = mixing_bb[query_N.clamp(min=0)][:, key_M.clamp(min=0)]
    weights_NM = torch.where(is_prefix_NM, 1.0, weights_NM)

    plain_BhNM = q_BhNd @ k_BhMd.transpose(-2, -1)
    scores = plain_BhNM * weights_NM
    sums_BhN = scores.sum(-1)
    if not own_sum:
        # The sums of a query are those of the queries at its place of all blocks.
        for n in (query_N >= 0).nonzero()[:, 0].tolist():
            total = plain_BhNM[:, :, n, key_M < 0].sum(-1)
            for m in (place_N == place_N[n]).nonzero()[:, 0].tolist():
                of_block = plain_BhNM[:, :, m, key_M == query_N[m]].sum(-1)
                total = total + mixing_bb[query_N[n], query_N[m]] * of_block
            sums_BhN[..., n] = total
    return scores / (sums_BhN[..., None] + eps * M) @ v_BhMe


def _blocks_and_places(number: int, size: tuple[int, int], side: int) -> tuple[Tensor, Tensor]:
    """Block of each of `number` tokens and place in it, `(number,)`; -1 for prefix tokens."""
    token = torch.arange(size[0] * size[1])
    height, width = (-(-length // side) for length in size)
    row, column = token // size[1], token % size[1]
    block = row // height * side + column // width
    place = row % height * width + column % width
    prefix = torch.full((number - len(token),), -1)
    return torch.cat((prefix, block)), torch.cat((prefix, place))

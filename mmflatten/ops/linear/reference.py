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
        plain, rotated = (
            q @ k.transpose(-2, -1) for q, k in ((q_BhNd, k_BhMd), (rotated_q_BhNd, rotated_k_BhMd))
        )
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
    powered = x**focusing_factor
    return (
        powered
        / powered.square().sum(-1, keepdim=True).sqrt()
        * x.square().sum(-1, keepdim=True).sqrt()
    )


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
    matrix_BCNM = _unit(q_BNC).transpose(1, 2)[..., None] * _unit(k_BMC).transpose(1, 2)[:, :, None]
    return (matrix_BCNM @ v_BMC.transpose(1, 2)[..., None])[..., 0].transpose(1, 2)


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
    rotated = (
        (q_BhNd if rotated_q_BhNd is None else rotated_q_BhNd)
        @ (k_BhMd if rotated_k_BhMd is None else rotated_k_BhMd).transpose(-2, -1)
        * q_BhNd.shape[-1] ** -0.5
    )
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
    side, M = round(mixing_bb.shape[0] ** 0.5), k_BhMd.shape[-2]

    def blocks(number: int, size: tuple[int, int]) -> Tensor:
        token = torch.arange(size[0] * size[1])
        height, width = (-(-length // side) for length in size)
        block = token // size[1] // height * side + token % size[1] // width
        return torch.cat((torch.full((number - len(token),), -1), block))  # -1 for prefix tokens

    query, key = blocks(q_BhNd.shape[-2], hw_shape), blocks(M, kv_shape)
    weights_NM = torch.where(
        (query[:, None] < 0) | (key < 0), 1.0, mixing_bb[query.clamp(min=0)][:, key.clamp(min=0)]
    )
    plain_BhNM = q_BhNd @ k_BhMd.transpose(-2, -1)
    scores = plain_BhNM * weights_NM
    sums_BhN = scores.sum(-1)
    if not own_sum:
        token = torch.arange(hw_shape[0] * hw_shape[1])
        height, width = (-(-length // side) for length in hw_shape)
        place = token // hw_shape[1] % height * width + token % hw_shape[1] % width
        place = torch.cat((torch.full((len(query) - len(token),), -1), place))
        for n in range(len(query)):
            if query[n] >= 0:
                same = plain_BhNM[:, :, n, key < 0].sum(-1)
                for m in (place == place[n]).nonzero()[:, 0]:
                    of_block = plain_BhNM[:, :, m, key == query[m]].sum(-1)
                    same = same + mixing_bb[query[n], query[m]] * of_block
                sums_BhN = torch.cat(
                    (sums_BhN[..., :n], same[..., None], sums_BhN[..., n + 1 :]), dim=-1
                )
    return scores / (sums_BhN[..., None] + eps * M) @ v_BhMe

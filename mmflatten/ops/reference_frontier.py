"""Explicit references of newer attentions, imported by `mmflatten.ops.reference`."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor


def rotary_2d(
    x: Tensor,
    hw_shape: tuple[int, int],
    *,
    last_frequency: bool = True,
    span: tuple[int, int] | None = None,
) -> Tensor:
    """Reference of `mmflatten.ops.rotary_2d`: complex rotation, token by token."""
    (H, W), (rows, cols), half = hw_shape, span or hw_shape, x.shape[-1] // 2
    number = half // 2
    tokens = list(x.unbind(-2))
    for n in range(H * W):
        thetas = [
            10000 ** (-j / max(number - 1 if last_frequency else number, 1)) for j in range(number)
        ]
        angles = torch.tensor(
            [n // W * rows / H * t for t in thetas] + [n % W * cols / W * t for t in thetas],
            dtype=x.dtype,
        )
        index = len(tokens) - H * W + n
        pairs = torch.view_as_complex(tokens[index].unflatten(-1, (half, 2)).contiguous())
        tokens[index] = torch.view_as_real(
            pairs * torch.polar(torch.ones_like(angles), angles)
        ).flatten(-2)
    return torch.stack(tokens, dim=-2)


def agent_attention(
    q_BhNd: Tensor,
    k_BhMd: Tensor,
    v_BhMe: Tensor,
    agents_Bhad: Tensor,
    *,
    key_bias: Tensor | float | None = None,
    query_bias: Tensor | float | None = None,
) -> Tensor:
    """Reference of `mmflatten.ops.agent_attention`: the product of two attention matrices,
    `(B, h, N, M)`.
    """
    key_bias, query_bias = (0.0 if bias is None else bias for bias in (key_bias, query_bias))
    scale = q_BhNd.shape[-1] ** -0.5
    left = (q_BhNd @ agents_Bhad.transpose(-2, -1) * scale + query_bias).softmax(-1)
    right = (agents_Bhad @ k_BhMd.transpose(-2, -1) * scale + key_bias).softmax(-1)
    return (left @ right) @ v_BhMe


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


def circulant_attention(
    q_BNC: Tensor, k_BNC: Tensor, v_BNC: Tensor, *, hw_shape: tuple[int, int]
) -> Tensor:
    """Reference of `mmflatten.ops.circulant_attention`: one block-circulant matrix per channel,
    `(B, C, N, N)`.
    """
    H, W = hw_shape
    token = torch.arange(H * W)
    rows, cols = token // W, token % W
    offset_NM = (rows[None] - rows[:, None]) % H * W + (cols[None] - cols[:, None]) % W
    products_BCNM = torch.einsum('bnc,bmc->bcnm', q_BNC, k_BNC)
    scores_BCo = (
        torch.zeros_like(products_BCNM[:, :, 0]).index_add(
            2, offset_NM.flatten(), products_BCNM.flatten(2)
        )
        / (H * W) ** 0.5
    )
    return torch.einsum('bcnm,bmc->bnc', scores_BCo.softmax(-1)[:, :, offset_NM], v_BNC)


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


def gated_test_time_training(
    q_BhNd: Tensor, k_BhMd: Tensor, v_BhMd: Tensor, *, value_hdd: Tensor, gate_hdd: Tensor
) -> Tensor:
    """Reference of `mmflatten.ops.gated_test_time_training`: the inner step by autograd."""
    value, gate = (w.expand(k_BhMd.shape[0], -1, -1, -1) for w in (value_hdd, gate_hdd))
    with torch.enable_grad():
        loss = -(k_BhMd @ value * F.silu(k_BhMd @ gate) * v_BhMd).sum() / (3 * k_BhMd.shape[-2])
        steps = torch.autograd.grad(loss, (value, gate), create_graph=True)
    value, gate = (
        w - step / (1 + step.square().sum(-2, keepdim=True).sqrt())
        for w, step in zip((value, gate), steps)
    )
    return q_BhNd @ value * F.silu(q_BhNd @ gate)


def swiglu_test_time_training(
    q_BhNd: Tensor,
    k_BhMd: Tensor,
    v_BhMd: Tensor,
    *,
    gate_hdd: Tensor,
    value_hdd: Tensor,
    out_hdd: Tensor,
) -> Tensor:
    """Reference of `mmflatten.ops.swiglu_test_time_training`: the inner step by autograd."""

    def network(x: Tensor, gate: Tensor, value: Tensor, out: Tensor) -> Tensor:
        return (F.silu(x @ gate) * (x @ value)) @ out

    weights = [w.expand(k_BhMd.shape[0], -1, -1, -1) for w in (gate_hdd, value_hdd, out_hdd)]
    with torch.enable_grad():
        loss = -(network(k_BhMd, *weights) * v_BhMd).sum() / (
            k_BhMd.shape[-2] * k_BhMd.shape[-1] ** 0.5
        )
        steps = torch.autograd.grad(loss, weights, create_graph=True)
    return network(q_BhNd, *(w - step for w, step in zip(weights, steps)))


def conv_test_time_training(
    q_BCHW: Tensor, k_BCHW: Tensor, v_BCHW: Tensor, *, weight_C1yx: Tensor
) -> Tensor:
    """Reference of `mmflatten.ops.conv_test_time_training`: the inner step by autograd, image by
    image.
    """
    results = []
    for q, k, v in zip(q_BCHW, k_BCHW, v_BCHW):
        weight, pad = weight_C1yx.clone(), (weight_C1yx.shape[-2] // 2, weight_C1yx.shape[-1] // 2)
        with torch.enable_grad():
            loss = -(F.conv2d(k[None], weight, padding=pad, groups=len(q)) * v).sum() / (
                3 * v[0].numel()
            )
            (step,) = torch.autograd.grad(loss, weight, create_graph=True)
        weight = weight - step / (1 + step.square().sum((-3, -2, -1), keepdim=True).sqrt())
        results.append(F.conv2d(q[None], weight, padding=pad, groups=len(q))[0])
    return torch.stack(results)


def nystrom_attention(
    q_BhNd: Tensor,
    k_BhMd: Tensor,
    v_BhMe: Tensor,
    *,
    q_landmarks_Bhad: Tensor,
    k_landmarks_Bhad: Tensor,
    bias: Tensor | float | None = None,
    iterations: int = 6,
) -> Tensor:
    """Reference of `mmflatten.ops.nystrom_attention`: the product of three matrices,
    `(B, h, N, M)`.
    """
    scale = q_BhNd.shape[-1] ** -0.5
    left = (scale * torch.einsum('bhnd,bhad->bhna', q_BhNd, k_landmarks_Bhad)).softmax(-1)
    middle = (scale * torch.einsum('bhad,bhcd->bhac', q_landmarks_Bhad, k_landmarks_Bhad)).softmax(
        -1
    )
    logits = scale * torch.einsum('bhad,bhmd->bham', q_landmarks_Bhad, k_BhMd)
    right = (logits if bias is None else logits + bias).softmax(-1)
    inverse = (
        middle.transpose(-2, -1)
        / (middle.sum(-2).amax(-1) * middle.sum(-1).amax(-1))[..., None, None]
    )
    for _ in range(iterations):
        az = middle @ inverse
        inverse = (
            13 * inverse - 15 * inverse @ az + 7 * inverse @ az @ az - inverse @ az @ az @ az
        ) / 4
    return (left @ inverse @ right) @ v_BhMe


def manhattan_attention(
    q_BhNd: Tensor, k_BhNd: Tensor, v_BhNe: Tensor, *, decay_h: Tensor, hw_shape: tuple[int, int]
) -> Tensor:
    """Reference of `mmflatten.ops.manhattan_attention`: the product of a matrix within rows and one
    within columns.
    """
    token = torch.arange(hw_shape[0] * hw_shape[1])
    rows, cols = token // hw_shape[1], token % hw_shape[1]
    logits = q_BhNd @ k_BhNd.transpose(-2, -1) * q_BhNd.shape[-1] ** -0.5

    def within(line: Tensor, position: Tensor) -> Tensor:
        decay = decay_h[:, None, None] * (position[:, None] - position).abs()
        return (logits + decay).masked_fill(line[:, None] != line, -torch.inf).softmax(-1)

    return within(cols, rows) @ within(rows, cols) @ v_BhNe


def neighborhood_attention(
    q_BhNd: Tensor,
    k_BhNd: Tensor,
    v_BhNe: Tensor,
    *,
    hw_shape: tuple[int, int],
    kernel_size: int = 7,
    dilation: int = 1,
    bias: Tensor | None = None,
) -> Tensor:
    """Reference of `mmflatten.ops.neighborhood_attention`: all logits, masked one by one outside
    the neighbourhood.
    """
    (H, W), N = hw_shape, hw_shape[0] * hw_shape[1]
    logits = (q_BhNd @ k_BhNd.transpose(-2, -1) * q_BhNd.shape[-1] ** -0.5).clone()
    for n in range(N):
        for m in range(N):
            axes = ((n // W, m // W, H), (n % W, m % W, W))
            offset = [_neighbor_offset(*axis, kernel_size, dilation) for axis in axes]
            if None in offset:
                logits[:, :, n, m] = -torch.inf
            elif bias is not None:
                logits[:, :, n, m] += bias[:, offset[0], offset[1]]
    return logits.softmax(-1) @ v_BhNe


def _neighbor_offset(query: int, key: int, length: int, number: int, dilation: int) -> int | None:
    """Index in the table of offsets, or None if the key is not among the nearest."""
    candidates = range(query % dilation, length, dilation)
    nearest = sorted(candidates, key=lambda position: (abs(position - query), position))[:number]
    return (key - query) // dilation + number - 1 if key in nearest else None

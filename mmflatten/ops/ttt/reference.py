"""Explicit references of test-time training, whose inner step is computed by autograd."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor


def gated_test_time_training(
    q_BhNd: Tensor, k_BhMd: Tensor, v_BhMd: Tensor, *, value_hdd: Tensor, gate_hdd: Tensor
) -> Tensor:
    """Reference of `mmflatten.ops.gated_test_time_training`: the inner step by autograd."""
    value, gate = (w.expand(k_BhMd.shape[0], -1, -1, -1) for w in (value_hdd, gate_hdd))
    with torch.enable_grad():
        loss = -(k_BhMd @ value * F.silu(k_BhMd @ gate) * v_BhMd).sum() / (3 * k_BhMd.shape[-2])
        steps = torch.autograd.grad(loss, (value, gate), create_graph=True)
    value_step, gate_step = steps
    value = value - _clipped(value_step, -2)
    gate = gate - _clipped(gate_step, -2)
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
        M, d = k_BhMd.shape[-2:]
        loss = -(network(k_BhMd, *weights) * v_BhMd).sum() / (M * d**0.5)
        steps = torch.autograd.grad(loss, weights, create_graph=True)
    return network(q_BhNd, *(w - step for w, step in zip(weights, steps)))


def conv_test_time_training(
    q_BCHW: Tensor, k_BCHW: Tensor, v_BCHW: Tensor, *, weight_C1yx: Tensor
) -> Tensor:
    """Reference of `mmflatten.ops.conv_test_time_training`: the inner step by autograd, image by
    image.
    """
    pad = (weight_C1yx.shape[-2] // 2, weight_C1yx.shape[-1] // 2)
    results = []
    for q, k, v in zip(q_BCHW, k_BCHW, v_BCHW):
        weight = weight_C1yx.clone()
        with torch.enable_grad():
            y = F.conv2d(k[None], weight, padding=pad, groups=len(q))
            loss = -(y * v).sum() / (3 * v[0].numel())
            (step,) = torch.autograd.grad(loss, weight, create_graph=True)
        weight = weight - _clipped(step, (-3, -2, -1))
        results.append(F.conv2d(q[None], weight, padding=pad, groups=len(q))[0])
    return torch.stack(results)


def _clipped(step: Tensor, dim: int | tuple[int, ...]) -> Tensor:
    return step / (1 + step.square().sum(dim, keepdim=True).sqrt())

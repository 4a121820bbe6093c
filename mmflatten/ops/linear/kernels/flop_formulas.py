"""FLOP formulas of the fused operator for `torch.utils.flop_counter.FlopCounterMode`, registered on
import.

This is a separate module because PyTorch's counter imports Triton.
"""

from __future__ import annotations

import torch
from torch.utils.flop_counter import register_flop_formula

import mmflatten.ops.linear.kernels  # noqa: F401  defines the operator


def multiply_accumulates(q_shape: tuple[int, ...], k_shape: tuple[int, ...]) -> int:
    """Count as for `linear_attention`: two products by the cheaper association, and the
    denominators.

    The kernels always use the association that is linear in the tokens, but the count of a model is
    the same on every device.
    """
    (B, h, N, d), M = q_shape, k_shape[2]
    return B * h * (min((N + M) * d * d, 2 * N * M * d) + N * d)


@register_flop_formula(torch.ops.mmflatten.linear_attention)
def _forward_flops(
    q_shape: tuple[int, ...], k_shape: tuple[int, ...], *args: object, **kwargs: object
) -> int:
    return 2 * multiply_accumulates(q_shape, k_shape)


@register_flop_formula(torch.ops.mmflatten.linear_attention_backward)
def _backward_flops(
    grad_shape: tuple[int, ...],
    q_shape: tuple[int, ...],
    k_shape: tuple[int, ...],
    *args: object,
    **kwargs: object,
) -> int:
    return 4 * multiply_accumulates(q_shape, k_shape)

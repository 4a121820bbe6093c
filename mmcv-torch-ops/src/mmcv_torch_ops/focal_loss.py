"""Focal losses of sigmoid and softmax (Lin et al., ICCV 2017, arXiv:1708.02002), element by
element.
"""

from __future__ import annotations

import torch
from torch import Tensor

from mmcv_torch_ops.precision import single

# below it, mmcv's kernels take no logarithm, in float64 neither
_SMALLEST = torch.finfo(torch.float32).tiny


def sigmoid_focal_loss_forward(
    input: Tensor, target: Tensor, weight: Tensor, output: Tensor, gamma: float, alpha: float
) -> None:
    """Write -alpha (1 - p)^gamma log p for the target's class, -(1 - alpha) p^gamma log(1 - p) for
    the others.

    Args:
        input: (N, C), logits; p is their sigmoid.
        target: (N,), classes; C and negative numbers are background.
        weight: (C,), of the target's class, or empty.
        output: (N, C).
    """
    _check('sigmoid_focal_loss', target, most=input.shape[1])
    input, weight = single(input, weight)
    positive = _classes(input, target)
    p = input.sigmoid()
    term_p = (1 - p).pow(gamma) * p.clamp(min=_SMALLEST).log()
    term_n = p.pow(gamma) * (1 - p).clamp(min=_SMALLEST).log()
    loss = torch.where(positive, -alpha * term_p, (alpha - 1) * term_n)
    output.copy_(_weighted(loss, target, weight))


def sigmoid_focal_loss_backward(
    input: Tensor, target: Tensor, weight: Tensor, grad_input: Tensor, gamma: float, alpha: float
) -> None:
    """Write the derivative of the sum of the losses into `grad_input` (N, C)."""
    input, weight = single(input, weight)
    positive = _classes(input, target)
    p = input.sigmoid()
    term_p = (1 - p).pow(gamma) * (1 - p - gamma * p * p.clamp(min=_SMALLEST).log())
    term_n = p.pow(gamma) * (gamma * (1 - p) * (1 - p).clamp(min=_SMALLEST).log() - p)
    slope = torch.where(positive, -alpha * term_p, (alpha - 1) * term_n)
    grad_input.copy_(_weighted(slope, target, weight))


def softmax_focal_loss_forward(
    input: Tensor, target: Tensor, weight: Tensor, output: Tensor, gamma: float, alpha: float
) -> None:
    """Write -alpha (1 - p)^gamma log p, where p is the target's probability, or 0 for a negative
    target.

    Args:
        input: (N, C), probabilities.
        target: (N,), and `output` (N,).
        weight: (C,), of the target's class, or empty.
    """
    _check('softmax_focal_loss', target, most=input.shape[1] - 1)
    input, weight = single(input, weight)
    p = _probability(input, target)
    loss = -alpha * (1 - p).pow(gamma) * p.clamp(min=_SMALLEST).log()
    output.copy_(_weighted(loss * (target >= 0), target, weight))


def softmax_focal_loss_backward(
    input: Tensor,
    target: Tensor,
    weight: Tensor,
    buff: Tensor,
    grad_input: Tensor,
    gamma: float,
    alpha: float,
) -> None:
    """Write the derivative of the sum of the losses by the logits into `grad_input` (N, C); `buff`
    (N,) is scratch.
    """
    input, weight = single(input, weight)
    p = _probability(input, target)
    slope = alpha * (
        gamma * (1 - p).pow(gamma - 1) * p * p.clamp(min=_SMALLEST).log() - (1 - p).pow(gamma)
    )
    slope = _weighted(slope * (target >= 0), target, weight)
    grad_input.copy_(slope[:, None] * (_classes(input, target).to(input.dtype) - input))


def _check(operator: str, target: Tensor, most: int) -> None:
    if not torch.compiler.is_compiling() and target.numel() and target.max() > most:
        raise ValueError(f'{operator}: target must be at most {most}, got {int(target.max())}')


def _classes(input: Tensor, target: Tensor) -> Tensor:
    return target[:, None] == torch.arange(input.shape[1], device=input.device)


def _probability(softmax: Tensor, target: Tensor) -> Tensor:
    return softmax.gather(1, target.clamp(min=0)[:, None])[:, 0]


def _weighted(values: Tensor, target: Tensor, weight: Tensor) -> Tensor:
    """Multiply by the weight of the target's class, where there are weights; a background target
    has none.
    """
    if not weight.numel():
        return values
    known = (target >= 0) & (target < len(weight))
    factors = torch.where(known, weight[target.clamp(0, len(weight) - 1)], 1)
    return values * factors.view(-1, *[1] * (values.dim() - 1))

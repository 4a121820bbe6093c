"""Launchers of the kernels of fused linear attention for windows, with one program per window and group of heads."""
from __future__ import annotations

import torch
from torch import Tensor

from mmflatten.ops.kernels import launch
from mmflatten.ops.kernels import window_kernels as kernels
from mmflatten.ops.kernels.closed_form import Options
from mmflatten.ops.kernels.launch import bound_of, constants_of, contiguous, optional, readable, windows_of
from mmflatten.ops.kernels.tile_table import tile_of


def forward(q: Tensor, k: Tensor, v: Tensor, position: Tensor | None, rescale: Tensor | None, weight: Tensor | None,
            temperature: Tensor | None, local: Tensor | None, options: Options) -> tuple[Tensor, Tensor]:
    """Same as `closed_form.forward`, with one kernel. The returned state is empty, because it is never written."""
    B, h, N, d = q.shape
    q, k, v = readable(q, k, v)
    position, rescale, weight, temperature = contiguous(position, rescale, weight, temperature)
    local = None if local is None else local.transpose(1, 2).contiguous()
    y = v.new_empty(B, N, h, d)
    tile = tile_of('window', options.feature_map, h, d, q.dtype)
    launch.run(kernels.window_kernel, tile, (B, 1), q, k, v, optional(position, k), optional(rescale, k),
               optional(weight, k), optional(temperature, k), optional(local, k), y, N, windows_of(weight),
               *q.stride()[:3], *k.stride()[:3], options.floor, bound_of(options, N), HAS_LOCAL=local is not None,
               **_present(position, weight, temperature, options), **constants_of(q, options))
    return y, q.new_empty(0, dtype=torch.float32)


def backward(grad: Tensor, q: Tensor, k: Tensor, v: Tensor, position: Tensor | None, rescale: Tensor | None,
             weight: Tensor | None, temperature: Tensor | None, state: Tensor,
             options: Options) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Same as `closed_form.backward`, with one kernel, which recomputes the state."""
    B, h, N, d = q.shape
    grad, (q, k, v) = grad.contiguous(), readable(q, k, v)
    position, rescale, weight, temperature = contiguous(position, rescale, weight, temperature)
    grad_q, grad_k, grad_v = (x.new_empty(B, N, h, d) for x in (q, k, v))
    focused = options.feature_map == 'focused'
    partial_rescale = q.new_empty(B if focused else 0, 2, h, d, dtype=torch.float32)
    partial_temperature = q.new_empty(0 if temperature is None else B, h, dtype=torch.float32)
    tile = tile_of('window_backward', options.feature_map, h, d, q.dtype)
    launch.run(kernels.window_backward_kernel, tile, (B, 1), grad, q, k, v, optional(position, k), optional(rescale, k),
               optional(weight, k), optional(temperature, k), grad_q, grad_k, grad_v, partial_rescale,
               partial_temperature, N, windows_of(weight), *q.stride()[:3], *k.stride()[:3], options.floor,
               bound_of(options, N), **_present(position, weight, temperature, options), **constants_of(q, options))
    grad_rescale = partial_rescale.sum((0, 1))
    grad_rescale = grad_rescale if rescale is None or not focused else grad_rescale / rescale
    return grad_q, grad_k, grad_v, grad_rescale, partial_temperature.sum(0)


def _present(position: Tensor | None, weight: Tensor | None, temperature: Tensor | None,
             options: Options) -> dict[str, bool]:
    return dict(HAS_POSITION=position is not None, HAS_WEIGHT=weight is not None,
                HAS_TEMPERATURE=temperature is not None, CLAMP=bool(options.min_denominator))

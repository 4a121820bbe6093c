"""Launcher of the kernels of fused linear attention: chunks and buffers."""

from __future__ import annotations

from typing import Any

import torch
import triton
from torch import Tensor

from mmflatten.ops.linear.kernels import attention_kernels as kernels
from mmflatten.ops.linear.kernels import launch
from mmflatten.ops.linear.kernels.launch import chunks_of, contiguous, optional, readable, total
from mmflatten.ops.linear.kernels.options import EPS, Options
from mmflatten.ops.linear.kernels.tile_table import tile_of


def forward(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    position: Tensor | None,
    rescale: Tensor | None,
    weight: Tensor | None,
    temperature: Tensor | None,
    local: Tensor | None,
    options: Options,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return the result `(B, N, h, d)` and what the backward pass needs.

    The state `(B, h, d + 1, d)` is `S`, with `kbar` in its last row. For the focused map, the norms
    of queries and keys `(B, N, 2)` and `(B, M, 2)` are `1 / |r|` and `|r| / |u^p|`; for other maps
    they are empty.
    """
    (B, h, N, d), M = q.shape, k.shape[2]
    q, k, v = readable(q, k, v)
    position, rescale, weight, temperature = contiguous(position, rescale, weight, temperature)
    norms_q, norms_k = _norms(q, None, rescale, options), _norms(k, position, rescale, options)
    chunks = _plan('state', k)[1]
    partial = q.new_empty(B, h, chunks, d + 1, d, dtype=torch.float32)
    of_keys = _of_keys(k, position, rescale, weight)
    _run(kernels.state_kernel, k, options, v=v, norms=norms_k, partial=partial, **of_keys)
    state = total(partial, 2)
    y, local = (
        v.new_empty(B, N, h, d),
        None if local is None else local.transpose(1, 2).contiguous(),
    )
    _run(
        kernels.output_kernel,
        q,
        options,
        norms=norms_q,
        state=_scaled(state, temperature),
        local=optional(local, q),
        y=y,
        HAS_LOCAL=local is not None,
        **_of_queries(q, rescale, options, M),
    )
    return y, state, norms_q, norms_k


def backward(
    grad: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    position: Tensor | None,
    rescale: Tensor | None,
    weight: Tensor | None,
    temperature: Tensor | None,
    state: Tensor,
    norms_q: Tensor,
    norms_k: Tensor,
    options: Options,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Return gradients of queries, keys, values `(B, N, h, d)`, and if there are any, rescaling and
    temperatures.
    """
    (B, h, N, d), M, focused = q.shape, k.shape[2], options.feature_map == 'focused'
    q, k, v = readable(q, k, v)
    position, rescale, weight, temperature = contiguous(position, rescale, weight, temperature)
    grad, grad_z = grad.contiguous(), q.new_empty(B, N, h, dtype=torch.float32)
    chunks = _plan('state_backward', q)[1]
    partial = q.new_empty(B, h, chunks, d + 1, d, dtype=torch.float32)
    of_queries = dict(
        grad_y=grad,
        norms=norms_q,
        state=_scaled(state, temperature),
        grad_z=grad_z,
        **_of_queries(q, rescale, options, M),
    )
    _run(kernels.state_backward_kernel, q, options, partial=partial, **of_queries)
    grad_state = total(partial, 2)
    grad_q, grad_k, grad_v = (x.new_empty(B, x.shape[2], h, d) for x in (q, k, k))
    numbers = [
        B * _plan(name, x)[1] if focused else 0
        for name, x in (('query_backward', q), ('key_backward', k))
    ]
    partial_rescale = q.new_empty(sum(numbers), h, d, dtype=torch.float32)
    rescale_q, rescale_k = partial_rescale.split(numbers)
    _run(
        kernels.query_backward_kernel,
        q,
        options,
        along=total(grad_z, -1) if focused else grad_z,
        grad_q=grad_q,
        partial_rescale=rescale_q,
        **of_queries,
    )
    grad_temperature = grad_state.new_empty(0)
    if temperature is not None:
        grad_temperature = (grad_state[:, :, :d] * state[:, :, :d]).sum((0, 2, 3))
    of_keys = dict(
        norms=norms_k,
        grad_state=_scaled(grad_state, temperature),
        **_of_keys(k, position, rescale, weight),
    )
    along = k.new_empty(B, M, h, dtype=torch.float32)
    _run(
        kernels.value_backward_kernel,
        k,
        options,
        v=v if focused else k,
        grad_v=grad_v,
        along=along,
        **of_keys,
    )
    _run(
        kernels.key_backward_kernel,
        k,
        options,
        v=v,
        along=total(along, -1) if focused else along,
        grad_k=grad_k,
        partial_rescale=rescale_k,
        **of_keys,
    )
    grad_rescale = (
        partial_rescale.flatten() if rescale is None else partial_rescale.sum(0) / rescale
    )
    return grad_q, grad_k, grad_v, grad_rescale, grad_temperature


def _norms(x: Tensor, position: Tensor | None, rescale: Tensor | None, options: Options) -> Tensor:
    """Return the norms of all tokens, `(B, N, 2)`; empty for maps other than the focused."""
    B, h, N, d = x.shape
    if options.feature_map != 'focused':
        return x.new_empty(0, dtype=torch.float32)
    norms, tile = x.new_empty(B, N, 2, dtype=torch.float32), tile_of('norms', h * d)
    launch.run(
        kernels.norms_kernel,
        (B, triton.cdiv(N, tile.BLOCK)),
        x=x,
        position=optional(position, x),
        rescale=rescale,
        norms=norms,
        tokens=N,
        stride_b=x.stride(0),
        stride_n=x.stride(2),
        floor=options.floor,
        HAS_POSITION=position is not None,
        POWER=options.power,
        WIDTH=h * d,
        **tile._asdict(),
    )
    return norms


def _run(kernel: triton.JITFunction, x: Tensor, options: Options, **arguments: Any) -> None:
    """Launch a kernel that loops over chunks of the tokens of `x`."""
    B, h, N, d = x.shape
    chunk, chunks = _plan(kernel.__name__.removesuffix('_kernel'), x)
    tile = tile_of(kernel.__name__.removesuffix('_kernel'), d)
    # TF32 represents half-precision inputs exactly. Only tests have float32 inputs.
    launch.run(
        kernel,
        (B * h, chunks),
        tokens=N,
        chunk=chunk,
        heads=h,
        stride_b=x.stride(0),
        stride_h=x.stride(1),
        stride_n=x.stride(2),
        floor=options.floor,
        FEATURE=options.feature_map,
        POWER=options.power,
        WIDTH=d,
        PRECISION='tf32x3' if x.dtype == torch.float32 else 'tf32',
        **arguments,
        **tile._asdict(),
    )


def _of_keys(
    k: Tensor, position: Tensor | None, rescale: Tensor | None, weight: Tensor | None
) -> dict[str, Any]:
    return dict(
        k=k,
        position=optional(position, k),
        rescale=optional(rescale, k),
        weight=optional(weight, k),
        windows=1 if weight is None else weight.shape[0],
        HAS_POSITION=position is not None,
        HAS_WEIGHT=weight is not None,
    )


def _of_queries(q: Tensor, rescale: Tensor | None, options: Options, keys: int) -> dict[str, Any]:
    clamp = bool(options.min_denominator)
    return dict(
        q=q,
        rescale=optional(rescale, q),
        CLAMP=clamp,
        bound=options.min_denominator / keys if clamp else EPS,
    )


def _scaled(state: Tensor, temperature: Tensor | None) -> Tensor:
    """Multiply the matrices of a state by the temperature of each head."""
    if temperature is None:
        return state.contiguous()
    return torch.cat((state[:, :, :-1] * temperature[:, None, None], state[:, :, -1:]), dim=2)


def _plan(kernel: str, x: Tensor) -> tuple[int, int]:
    """Return the tokens per program and the programs per image."""
    B, h, N, d = x.shape
    return chunks_of(B * h, N, tile_of(kernel, d).BLOCK)

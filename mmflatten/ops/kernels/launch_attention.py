"""Launchers of the kernels of fused linear attention: chunks and buffers."""
from __future__ import annotations

import torch
import triton
from torch import Tensor

from mmflatten.ops.kernels import attention_kernels as kernels
from mmflatten.ops.kernels import launch
from mmflatten.ops.kernels.closed_form import Options
from mmflatten.ops.kernels.launch import bound_of, constants_of, contiguous, optional, readable, windows_of
from mmflatten.ops.kernels.tile_table import Tile, tile_of

_PROGRAMS = 384  # nearly three for each of the 132 multiprocessors of an H100 or H200
_MIN_CHUNK = 256  # tokens per program, if the batch is large enough


def forward(q: Tensor, k: Tensor, v: Tensor, position: Tensor | None, rescale: Tensor | None, weight: Tensor | None,
            temperature: Tensor | None, local: Tensor | None, options: Options) -> tuple[Tensor, Tensor]:
    """Same as `closed_form.forward`, with kernels."""
    (B, h, N, d), M = q.shape, k.shape[2]
    q, k, v = readable(q, k, v)
    position, rescale, weight, temperature = contiguous(position, rescale, weight, temperature)
    tile, (chunk, chunks) = _plan('state', options, q, M)
    partial = q.new_empty(B, chunks, h, d + 1, d, dtype=torch.float32)
    launch.run(kernels.state_kernel, tile, (B, chunks), k, v, optional(position, k), optional(rescale, k),
               optional(weight, k), partial, M, windows_of(weight), chunk, *k.stride()[:3], options.floor,
               HAS_POSITION=position is not None, HAS_WEIGHT=weight is not None, **constants_of(q, options))
    state = partial.sum(1)
    y = v.new_empty(B, N, h, d)
    local = None if local is None else local.transpose(1, 2).contiguous()
    tile, (chunk, chunks) = _plan('output', options, q, N)
    launch.run(kernels.output_kernel, tile, (B, chunks), q, optional(rescale, q), state, optional(temperature, q),
               optional(local, q), y, N, chunk, *q.stride()[:3], options.floor, bound_of(options, M),
               HAS_TEMPERATURE=temperature is not None, HAS_LOCAL=local is not None,
               CLAMP=bool(options.min_denominator), **constants_of(q, options))
    return y, state


def backward(grad: Tensor, q: Tensor, k: Tensor, v: Tensor, position: Tensor | None, rescale: Tensor | None,
             weight: Tensor | None, temperature: Tensor | None, state: Tensor,
             options: Options) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Same as `closed_form.backward`, with kernels."""
    (B, h, N, d), M = q.shape, k.shape[2]
    q, k, v = readable(q, k, v)
    position, rescale, weight, temperature = contiguous(position, rescale, weight, temperature)
    grad, state = grad.contiguous(), state.contiguous()
    grad_q, grad_k, grad_v = (x.new_empty(B, x.shape[2], h, d) for x in (q, k, v))
    tile, (chunk, chunks) = _plan('query_backward', options, q, N)
    partial = q.new_empty(B, chunks, h, d + 1, d, dtype=torch.float32)
    rescale_q = q.new_empty(B * chunks, h, d, dtype=torch.float32)
    launch.run(kernels.query_backward_kernel, tile, (B, chunks), grad, q, optional(rescale, q), state,
               optional(temperature, q), grad_q, partial, rescale_q, N, chunk, *q.stride()[:3], options.floor,
               bound_of(options, M), HAS_TEMPERATURE=temperature is not None, CLAMP=bool(options.min_denominator),
               **constants_of(q, options))
    grad_state = partial.sum(1)
    grad_temperature = grad_state.new_zeros(h)
    if temperature is not None:
        grad_temperature = (grad_state[:, :, :d] * state[:, :, :d]).sum((0, 2, 3))
        grad_state[:, :, :d] *= temperature[:, None, None]
    tile, (chunk, chunks) = _plan('key_backward', options, q, M)
    rescale_k = q.new_empty(B * chunks, h, d, dtype=torch.float32)
    launch.run(kernels.key_backward_kernel, tile, (B, chunks), k, v, optional(position, k), optional(rescale, k),
               optional(weight, k), grad_state, grad_k, grad_v, rescale_k, M, windows_of(weight),
               chunk, *k.stride()[:3], options.floor, HAS_POSITION=position is not None, HAS_WEIGHT=weight is not None,
               **constants_of(q, options))
    if rescale is None or options.feature_map != 'focused':
        return grad_q, grad_k, grad_v, grad_state.new_zeros(h, d), grad_temperature
    return grad_q, grad_k, grad_v, (rescale_q.sum(0) + rescale_k.sum(0)) / rescale, grad_temperature


def chunks_of(images: int, tokens: int, block: int) -> tuple[int, int]:
    """Return the tokens per program, a multiple of the block, and the programs per image."""
    wanted = max(1, min(triton.cdiv(_PROGRAMS, images), triton.cdiv(tokens, _MIN_CHUNK)))
    chunk = triton.cdiv(triton.cdiv(tokens, wanted), block) * block
    return chunk, triton.cdiv(tokens, chunk)


def _plan(kernel: str, options: Options, q: Tensor, tokens: int) -> tuple[Tile, tuple[int, int]]:
    B, h, _, d = q.shape
    tile = tile_of(kernel, options.feature_map, h, d, q.dtype)
    return tile, chunks_of(B * tile.GROUPS, tokens, tile.BLOCK)

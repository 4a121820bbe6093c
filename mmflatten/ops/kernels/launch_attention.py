"""Launching the kernels of fused linear attention: tiles, chunks, buffers."""
from __future__ import annotations

from typing import NamedTuple

import torch
import triton
from torch import Tensor

from mmflatten.ops.kernels import attention_kernels as kernels
from mmflatten.ops.kernels.closed_form import EPS, Options

_PROGRAMS = 384  # nearly three for each of the 132 multiprocessors of an H100 or H200
_MIN_CHUNK = 256  # tokens of a program, where there are enough images


class Tile(NamedTuple):
    """How a kernel is cut: the powers of two of a tile, the groups of heads, the warps of a program, and how many
    tiles its loop has under way."""

    HP: int
    DP: int
    BLOCK: int
    GROUPS: int
    num_warps: int
    num_stages: int = 2


def tile_of(kernel: str, feature_map: str, heads: int, width: int, dtype: torch.dtype) -> Tile:
    """The tile of a kernel, by what its registers hold on compute capabilities 8.0 and 9.0.

    Only the focused map requires all heads of a token in one tile, and then a warp works on each. Where the registers
    do not suffice, a program works on a single head and sweeps over the others for the norms.

    Args:
        kernel: 'state', 'output', 'query_backward' or 'key_backward'.
    """
    DP, together, full = max(16, triton.next_power_of_2(width)), triton.next_power_of_2(heads), dtype == torch.float32
    most = {'state': 8, 'output': 4 if full else 8, 'key_backward': 1 if full else 4, 'query_backward': 1}[kernel]
    if feature_map == 'focused' and 1 < together <= most and DP <= 32:
        return Tile(together, DP, 16, 1, together)
    return Tile(1, DP, 16 if full else 32, heads, 8 if DP > 32 else 4)


def precision_of(dtype: torch.dtype) -> str:
    """Of the products: TF32 keeps more of half-precision inputs than they have; three such products make up float32."""
    return 'tf32x3' if dtype == torch.float32 else 'tf32'


def forward(q: Tensor, k: Tensor, v: Tensor, position: Tensor | None, rescale: Tensor | None, weight: Tensor | None,
            temperature: Tensor | None, local: Tensor | None, options: Options) -> tuple[Tensor, Tensor]:
    """As `closed_form.forward`, by kernels."""
    (B, h, N, d), M = q.shape, k.shape[2]
    q, k, v = _readable(q, k, v)
    position, rescale, weight, temperature = _contiguous(position, rescale, weight, temperature)
    tile, (chunk, chunks) = _plan('state', options, q, M)
    partial = q.new_empty(B, chunks, h, d + 1, d, dtype=torch.float32)
    _run(kernels.state_kernel, tile, (B, chunks), k, v, _or(position, k), _or(rescale, k), _or(weight, k), partial, M,
         1 if weight is None else weight.shape[0], chunk, *k.stride()[:3], options.floor,
         HAS_POSITION=position is not None, HAS_WEIGHT=weight is not None, **_constants(q, options))
    state = partial.sum(1)
    y = v.new_empty(B, N, h, d)
    local = None if local is None else local.transpose(1, 2).contiguous()
    tile, (chunk, chunks) = _plan('output', options, q, N)
    _run(kernels.output_kernel, tile, (B, chunks), q, _or(rescale, q), state, _or(temperature, q), _or(local, q), y, N,
         chunk, *q.stride()[:3], options.floor, _bound(options, M), HAS_TEMPERATURE=temperature is not None,
         HAS_LOCAL=local is not None, CLAMP=bool(options.min_denominator), **_constants(q, options))
    return y, state


def backward(grad: Tensor, q: Tensor, k: Tensor, v: Tensor, position: Tensor | None, rescale: Tensor | None,
             weight: Tensor | None, temperature: Tensor | None, state: Tensor,
             options: Options) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """As `closed_form.backward`, by kernels."""
    (B, h, N, d), M = q.shape, k.shape[2]
    q, k, v = _readable(q, k, v)
    position, rescale, weight, temperature = _contiguous(position, rescale, weight, temperature)
    grad, state = grad.contiguous(), state.contiguous()
    grad_q, grad_k, grad_v = (x.new_empty(B, x.shape[2], h, d) for x in (q, k, v))
    tile, (chunk, chunks) = _plan('query_backward', options, q, N)
    partial = q.new_empty(B, chunks, h, d + 1, d, dtype=torch.float32)
    rescale_q = q.new_empty(B * chunks, h, d, dtype=torch.float32)
    _run(kernels.query_backward_kernel, tile, (B, chunks), grad, q, _or(rescale, q), state, _or(temperature, q), grad_q,
         partial, rescale_q, N, chunk, *q.stride()[:3], options.floor, _bound(options, M),
         HAS_TEMPERATURE=temperature is not None, CLAMP=bool(options.min_denominator), **_constants(q, options))
    grad_state = partial.sum(1)
    grad_temperature = grad_state.new_zeros(h)
    if temperature is not None:
        grad_temperature = (grad_state[:, :, :d] * state[:, :, :d]).sum((0, 2, 3))
        grad_state[:, :, :d] *= temperature[:, None, None]
    tile, (chunk, chunks) = _plan('key_backward', options, q, M)
    rescale_k = q.new_empty(B * chunks, h, d, dtype=torch.float32)
    _run(kernels.key_backward_kernel, tile, (B, chunks), k, v, _or(position, k), _or(rescale, k), _or(weight, k),
         grad_state, grad_k, grad_v, rescale_k, M, 1 if weight is None else weight.shape[0], chunk, *k.stride()[:3],
         options.floor, HAS_POSITION=position is not None, HAS_WEIGHT=weight is not None, **_constants(q, options))
    if rescale is None or options.feature_map != 'focused':
        return grad_q, grad_k, grad_v, grad_state.new_zeros(h, d), grad_temperature
    return grad_q, grad_k, grad_v, (rescale_q.sum(0) + rescale_k.sum(0)) / rescale, grad_temperature


def chunks_of(images: int, tokens: int, block: int) -> tuple[int, int]:
    """How many tokens a program walks, a multiple of its block, and how many programs share an image."""
    wanted = max(1, min(triton.cdiv(_PROGRAMS, images), triton.cdiv(tokens, _MIN_CHUNK)))
    chunk = triton.cdiv(triton.cdiv(tokens, wanted), block) * block
    return chunk, triton.cdiv(tokens, chunk)


def _plan(kernel: str, options: Options, q: Tensor, tokens: int) -> tuple[Tile, tuple[int, int]]:
    B, h, _, d = q.shape
    tile = tile_of(kernel, options.feature_map, h, d, q.dtype)
    return tile, chunks_of(B * tile.GROUPS, tokens, tile.BLOCK)


def _run(kernel: triton.JITFunction, tile: Tile, grid: tuple[int, int], *args: object, **constants: object) -> None:
    blocks = (*grid, tile.GROUPS)
    kernel[blocks](*args, **constants, **tile._asdict())


def _constants(q: Tensor, options: Options) -> dict[str, object]:
    return dict(FEATURE=options.feature_map, POWER=options.power, HEADS=q.shape[1], WIDTH=q.shape[3],
                PRECISION=precision_of(q.dtype))


def _readable(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Tensors as the kernels read them: contiguous channels, one layout for keys and values; views are not copied."""
    q = q if q.stride(-1) == 1 else q.contiguous()
    if k.stride() != v.stride() or k.stride(-1) != 1:
        k, v = k.contiguous(), v.contiguous()
    return q, k, v


def _contiguous(*others: Tensor | None) -> list[Tensor | None]:
    return [_positions(x) if x is not None and x.dim() == 3 else x if x is None else x.contiguous() for x in others]


def _positions(position_hMd: Tensor) -> Tensor:
    return position_hMd.transpose(0, 1).contiguous()


def _bound(options: Options, keys: int) -> float:
    return options.min_denominator / keys if options.min_denominator else EPS


def _or(x: Tensor | None, other: Tensor) -> Tensor:
    """A tensor, or one that stands in for it and is not read."""
    return other if x is None else x

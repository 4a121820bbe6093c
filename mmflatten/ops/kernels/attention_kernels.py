"""Fused linear attention in Triton: two kernels forward, two backward, without atomics.

Each program loops over a chunk of tokens of one image for a group of heads. It reads queries, keys and values in place
and accumulates float32 sums per chunk, which PyTorch then adds over the chunks, so results are deterministic. The
formulas are those of `mmflatten.ops.kernels.closed_form`.
"""
# No `from __future__ import annotations`: Triton reads the annotations of its functions.
import triton
import triton.language as tl

from mmflatten.ops.kernels.sweeps import attend, keys_backward, queries_backward, sum_keys
from mmflatten.ops.kernels.tiles import load_state, store_channels, store_state


@triton.jit(do_not_specialize=('tokens', 'windows', 'chunk'))
def state_kernel(k, v, position, rescale, weight, partial, tokens, windows, chunk, stride_b, stride_h, stride_n, floor,
                 HAS_POSITION: tl.constexpr, HAS_WEIGHT: tl.constexpr, FEATURE: tl.constexpr, POWER: tl.constexpr,
                 HEADS: tl.constexpr, WIDTH: tl.constexpr, HP: tl.constexpr, DP: tl.constexpr, BLOCK: tl.constexpr,
                 GROUPS: tl.constexpr, PRECISION: tl.constexpr):
    """State of one chunk of keys: partial sums of `k^T v / M` and of the mean of the keys."""
    image, part, group = tl.program_id(0).to(tl.int64), tl.program_id(1), tl.program_id(2)
    product, mean = sum_keys(
        k + image * stride_b, v + image * stride_b, position, rescale, weight, image, part * chunk,
        tl.minimum((part + 1) * chunk, tokens), tokens, windows, group, stride_h, stride_n, floor, HAS_POSITION,
        HAS_WEIGHT, FEATURE, POWER, HEADS, WIDTH, HP, DP, BLOCK, GROUPS, PRECISION)
    partial += (image * tl.num_programs(1) + part) * (HEADS * (WIDTH + 1) * WIDTH)
    store_state(partial, product, mean, group, HEADS, WIDTH, HP, DP)


@triton.jit(do_not_specialize=('tokens', 'chunk'))
def output_kernel(q, rescale, state, temperature, local, y, tokens, chunk, stride_b, stride_h, stride_n, floor, bound,
                  HAS_TEMPERATURE: tl.constexpr, HAS_LOCAL: tl.constexpr, CLAMP: tl.constexpr, FEATURE: tl.constexpr,
                  POWER: tl.constexpr, HEADS: tl.constexpr, WIDTH: tl.constexpr, HP: tl.constexpr, DP: tl.constexpr,
                  BLOCK: tl.constexpr, GROUPS: tl.constexpr, PRECISION: tl.constexpr):
    """Attention output of one chunk of queries."""
    image, part, group = tl.program_id(0).to(tl.int64), tl.program_id(1), tl.program_id(2)
    base = image * tokens * (HEADS * WIDTH)
    product, mean = load_state(state + image * (HEADS * (WIDTH + 1) * WIDTH), temperature, group, HAS_TEMPERATURE,
                               HEADS, WIDTH, HP, DP)
    attend(q + image * stride_b, rescale, product, mean, local + base, y + base, part * chunk,
           tl.minimum((part + 1) * chunk, tokens), tokens, group, stride_h, stride_n, floor, bound, HAS_LOCAL, CLAMP,
           FEATURE, POWER, HEADS, WIDTH, HP, DP, BLOCK, GROUPS, PRECISION)


@triton.jit(do_not_specialize=('tokens', 'chunk'))
def query_backward_kernel(grad_y, q, rescale, state, temperature, grad_q, partial, partial_rescale, tokens, chunk,
                          stride_b, stride_h, stride_n, floor, bound, HAS_TEMPERATURE: tl.constexpr,
                          CLAMP: tl.constexpr, FEATURE: tl.constexpr, POWER: tl.constexpr, HEADS: tl.constexpr,
                          WIDTH: tl.constexpr, HP: tl.constexpr, DP: tl.constexpr, BLOCK: tl.constexpr,
                          GROUPS: tl.constexpr, PRECISION: tl.constexpr):
    """Gradients of one chunk of queries, and its partial sums of the gradients of the state and the rescaling."""
    image, part, group = tl.program_id(0).to(tl.int64), tl.program_id(1), tl.program_id(2)
    base = image * tokens * (HEADS * WIDTH)
    state += image * (HEADS * (WIDTH + 1) * WIDTH)
    product, mean = load_state(state, temperature, group, HAS_TEMPERATURE, HEADS, WIDTH, HP, DP)
    grad_product, grad_mean, grad_rescale = queries_backward(
        grad_y + base, q + image * stride_b, rescale, state, temperature, product, mean, grad_q + base, part * chunk,
        tl.minimum((part + 1) * chunk, tokens), tokens, group, stride_h, stride_n, floor, bound, HAS_TEMPERATURE, CLAMP,
        FEATURE, POWER, HEADS, WIDTH, HP, DP, BLOCK, GROUPS, PRECISION)
    chunks = image * tl.num_programs(1) + part
    store_state(partial + chunks * (HEADS * (WIDTH + 1) * WIDTH), grad_product, grad_mean, group, HEADS, WIDTH, HP, DP)
    if FEATURE == 'focused':
        store_channels(partial_rescale + chunks * (HEADS * WIDTH), grad_rescale, group, HEADS, WIDTH, HP, DP)


@triton.jit(do_not_specialize=('tokens', 'windows', 'chunk'))
def key_backward_kernel(k, v, position, rescale, weight, grad_state, grad_k, grad_v, partial_rescale, tokens, windows,
                        chunk, stride_b, stride_h, stride_n, floor, HAS_POSITION: tl.constexpr,
                        HAS_WEIGHT: tl.constexpr, FEATURE: tl.constexpr, POWER: tl.constexpr, HEADS: tl.constexpr,
                        WIDTH: tl.constexpr, HP: tl.constexpr, DP: tl.constexpr, BLOCK: tl.constexpr,
                        GROUPS: tl.constexpr, PRECISION: tl.constexpr):
    """Gradients of one chunk of keys and values, and its partial sum of the gradient of the rescaling."""
    image, part, group = tl.program_id(0).to(tl.int64), tl.program_id(1), tl.program_id(2)
    base = image * tokens * (HEADS * WIDTH)
    grad_state += image * (HEADS * (WIDTH + 1) * WIDTH)
    grad_product, grad_mean = load_state(grad_state, rescale, group, False, HEADS, WIDTH, HP, DP)
    grad_rescale = keys_backward(
        k + image * stride_b, v + image * stride_b, position, rescale, weight, grad_state, grad_product, grad_mean,
        grad_k + base, grad_v + base, image, part * chunk, tl.minimum((part + 1) * chunk, tokens), tokens, windows,
        group, stride_h, stride_n, floor, HAS_POSITION, HAS_WEIGHT, FEATURE, POWER, HEADS, WIDTH, HP, DP, BLOCK, GROUPS,
        PRECISION)
    if FEATURE == 'focused':
        chunks = image * tl.num_programs(1) + part
        store_channels(partial_rescale + chunks * (HEADS * WIDTH), grad_rescale, group, HEADS, WIDTH, HP, DP)

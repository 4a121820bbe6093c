"""Fused linear attention of windows in Triton: one kernel forward, one backward, without atomics.

A program processes all tokens of a window for a group of heads, so the state stays in its registers: it sums the keys,
then attends. The backward pass sums the keys again, and each second reading of the window hits the cache.
"""
# No `from __future__ import annotations`: Triton reads the annotations of its functions.
import triton
import triton.language as tl

from mmflatten.ops.kernels.sweeps import attend, keys_backward, queries_backward, sum_keys
from mmflatten.ops.kernels.tiles import load_heads, store_channels


@triton.jit(do_not_specialize=('tokens', 'windows'))
def window_kernel(q, k, v, position, rescale, weight, temperature, local, y, tokens, windows, stride_q_b, stride_q_h,
                  stride_q_n, stride_b, stride_h, stride_n, floor, bound, HAS_POSITION: tl.constexpr,
                  HAS_WEIGHT: tl.constexpr, HAS_TEMPERATURE: tl.constexpr, HAS_LOCAL: tl.constexpr,
                  CLAMP: tl.constexpr, FEATURE: tl.constexpr, POWER: tl.constexpr, HEADS: tl.constexpr,
                  WIDTH: tl.constexpr, HP: tl.constexpr, DP: tl.constexpr, BLOCK: tl.constexpr, GROUPS: tl.constexpr,
                  PRECISION: tl.constexpr):
    """Attention output of one window."""
    image, group = tl.program_id(0).to(tl.int64), tl.program_id(2)
    base = image * tokens * (HEADS * WIDTH)
    product, mean = sum_keys(
        k + image * stride_b, v + image * stride_b, position, rescale, weight, image, 0, tokens, tokens, windows, group,
        stride_h, stride_n, floor, HAS_POSITION, HAS_WEIGHT, FEATURE, POWER, HEADS, WIDTH, HP, DP, BLOCK, GROUPS,
        PRECISION)
    if HAS_TEMPERATURE:
        product *= load_heads(temperature, group, HEADS, HP)
    attend(q + image * stride_q_b, rescale, product, mean, local + base, y + base, 0, tokens, tokens, group, stride_q_h,
           stride_q_n, floor, bound, HAS_LOCAL, CLAMP, FEATURE, POWER, HEADS, WIDTH, HP, DP, BLOCK, GROUPS, PRECISION)


@triton.jit(do_not_specialize=('tokens', 'windows'))
def window_backward_kernel(grad_y, q, k, v, position, rescale, weight, temperature, grad_q, grad_k, grad_v,
                           partial_rescale, partial_temperature, tokens, windows, stride_q_b, stride_q_h, stride_q_n,
                           stride_b, stride_h, stride_n, floor, bound, HAS_POSITION: tl.constexpr,
                           HAS_WEIGHT: tl.constexpr, HAS_TEMPERATURE: tl.constexpr, CLAMP: tl.constexpr,
                           FEATURE: tl.constexpr, POWER: tl.constexpr, HEADS: tl.constexpr, WIDTH: tl.constexpr,
                           HP: tl.constexpr, DP: tl.constexpr, BLOCK: tl.constexpr, GROUPS: tl.constexpr,
                           PRECISION: tl.constexpr):
    """Gradients of one window, and its partial sums of the gradients of the rescaling and the temperatures."""
    image, group = tl.program_id(0).to(tl.int64), tl.program_id(2)
    base = image * tokens * (HEADS * WIDTH)
    k += image * stride_b
    v += image * stride_b
    product, mean = sum_keys(k, v, position, rescale, weight, image, 0, tokens, tokens, windows, group, stride_h,
                             stride_n, floor, HAS_POSITION, HAS_WEIGHT, FEATURE, POWER, HEADS, WIDTH, HP, DP, BLOCK,
                             GROUPS, PRECISION)
    scaled = product
    if HAS_TEMPERATURE:
        scaled *= load_heads(temperature, group, HEADS, HP)
    grad_product, grad_mean, grad_rescale = queries_backward(
        grad_y + base, q + image * stride_q_b, rescale, q, temperature, scaled, mean, grad_q + base, 0, tokens, tokens,
        group, stride_q_h, stride_q_n, floor, bound, HAS_TEMPERATURE, CLAMP, FEATURE, POWER, HEADS, WIDTH, HP, DP,
        BLOCK, GROUPS, PRECISION)
    if HAS_TEMPERATURE:
        head = group * HP + tl.arange(0, HP)
        grad_temperature = tl.sum(tl.sum(grad_product * product, axis=2), axis=1)
        tl.store(partial_temperature + image * HEADS + head, grad_temperature, mask=head < HEADS)
        grad_product *= load_heads(temperature, group, HEADS, HP)
    if FEATURE == 'focused':
        partial_rescale += image * (2 * HEADS * WIDTH)
        store_channels(partial_rescale, grad_rescale, group, HEADS, WIDTH, HP, DP)
    grad_rescale = keys_backward(
        k, v, position, rescale, weight, q, grad_product, grad_mean, grad_k + base, grad_v + base, image, 0, tokens,
        tokens, windows, group, stride_h, stride_n, floor, HAS_POSITION, HAS_WEIGHT, FEATURE, POWER, HEADS, WIDTH, HP,
        DP, BLOCK, GROUPS, PRECISION)
    if FEATURE == 'focused':
        store_channels(partial_rescale + HEADS * WIDTH, grad_rescale, group, HEADS, WIDTH, HP, DP)

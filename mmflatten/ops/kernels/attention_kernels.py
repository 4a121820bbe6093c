"""Fused linear attention in Triton: two kernels forward, two backward, none with atomics.

Each program walks a chunk of tokens of one image for a group of heads, reads its queries, keys and values in place, and
keeps nothing but what it adds up: float32 sums per chunk, which PyTorch then adds over the chunks. So the same input
gives the same bits. The mathematics is that of `mmflatten.ops.kernels.closed_form`.
"""
# No `from __future__ import annotations`: Triton reads the annotations of its functions.
import triton
import triton.language as tl

from mmflatten.ops.kernels.tile_attention import (
    denominators,
    key_weights,
    output_backward,
    product_of,
    state_backward,
    store_output,
)
from mmflatten.ops.kernels.tile_features import features_backward, load_features, load_normed
from mmflatten.ops.kernels.tiles import (
    load_state,
    load_tile,
    store_channels,
    store_state,
    store_tile,
    sum_of_token,
)


@triton.jit(do_not_specialize=('tokens', 'windows', 'chunk'))
def state_kernel(k, v, position, rescale, weight, partial, tokens, windows, chunk, stride_b, stride_h, stride_n, floor,
                 HAS_POSITION: tl.constexpr, HAS_WEIGHT: tl.constexpr, FEATURE: tl.constexpr, POWER: tl.constexpr,
                 HEADS: tl.constexpr, WIDTH: tl.constexpr, HP: tl.constexpr, DP: tl.constexpr, BLOCK: tl.constexpr,
                 GROUPS: tl.constexpr, PRECISION: tl.constexpr):
    """The share of one chunk of keys in `k^T v / M` and in the mean of the keys: one state for each image and chunk."""
    image, part, group = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    k += image.to(tl.int64) * stride_b
    v += image.to(tl.int64) * stride_b
    product = tl.zeros((HP, DP, DP), tl.float32)
    mean = tl.zeros((HP, DP), tl.float32)
    for start in range(part * chunk, tl.minimum((part + 1) * chunk, tokens), BLOCK):
        n = start + tl.arange(0, BLOCK)
        _, _, key, _, _ = load_features(k, position, rescale, n, tokens, group, stride_h, stride_n, floor,
                                        HAS_POSITION, FEATURE, POWER, HEADS, WIDTH, HP, DP, GROUPS)
        key *= key_weights(weight, image, n, tokens, windows, HAS_WEIGHT)[None, :, None]
        value = load_tile(v, n, tokens, group, stride_h, stride_n, HEADS, WIDTH, HP, DP)
        product += product_of(tl.trans(key, 0, 2, 1), value, PRECISION)
        mean += tl.sum(key, axis=1)
    partial += (image.to(tl.int64) * tl.num_programs(1) + part) * (HEADS * (WIDTH + 1) * WIDTH)
    store_state(partial, product / tokens, mean / tokens, group, HEADS, WIDTH, HP, DP)


@triton.jit(do_not_specialize=('tokens', 'chunk'))
def output_kernel(q, rescale, state, temperature, local, y, tokens, chunk, stride_b, stride_h, stride_n, floor, bound,
                  HAS_TEMPERATURE: tl.constexpr, HAS_LOCAL: tl.constexpr, CLAMP: tl.constexpr, FEATURE: tl.constexpr,
                  POWER: tl.constexpr, HEADS: tl.constexpr, WIDTH: tl.constexpr, HP: tl.constexpr, DP: tl.constexpr,
                  BLOCK: tl.constexpr, GROUPS: tl.constexpr, PRECISION: tl.constexpr):
    """The attention of one chunk of queries."""
    image, part, group = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    q += image.to(tl.int64) * stride_b
    own = image.to(tl.int64) * tokens * (HEADS * WIDTH)
    y += own
    if HAS_LOCAL:
        local += own
    product, mean = load_state(state + image.to(tl.int64) * (HEADS * (WIDTH + 1) * WIDTH), temperature, group,
                               HAS_TEMPERATURE, HEADS, WIDTH, HP, DP)
    for start in range(part * chunk, tl.minimum((part + 1) * chunk, tokens), BLOCK):
        n = start + tl.arange(0, BLOCK)
        _, _, query, _, _ = load_features(q, q, rescale, n, tokens, group, stride_h, stride_n, floor, False, FEATURE,
                                          POWER, HEADS, WIDTH, HP, DP, GROUPS)
        store_output(query, product, mean, local, y, n, tokens, group, bound, HAS_LOCAL, CLAMP, HEADS, WIDTH, HP, DP,
                     PRECISION)


@triton.jit(do_not_specialize=('tokens', 'chunk'))
def query_backward_kernel(grad_y, q, rescale, state, temperature, grad_q, partial, partial_rescale, tokens, chunk,
                          stride_b, stride_h, stride_n, floor, bound, HAS_TEMPERATURE: tl.constexpr,
                          CLAMP: tl.constexpr, FEATURE: tl.constexpr, POWER: tl.constexpr, HEADS: tl.constexpr,
                          WIDTH: tl.constexpr, HP: tl.constexpr, DP: tl.constexpr, BLOCK: tl.constexpr,
                          GROUPS: tl.constexpr, PRECISION: tl.constexpr):
    """The gradient of one chunk of queries, and their share in the gradients of the state and of the rescaling."""
    image, part, group = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    q += image.to(tl.int64) * stride_b
    own = image.to(tl.int64) * tokens * (HEADS * WIDTH)
    grad_y += own
    grad_q += own
    state += image.to(tl.int64) * (HEADS * (WIDTH + 1) * WIDTH)
    product, mean = load_state(state, temperature, group, HAS_TEMPERATURE, HEADS, WIDTH, HP, DP)
    grad_product = tl.zeros((HP, DP, DP), tl.float32)
    grad_mean = tl.zeros((HP, DP), tl.float32)
    grad_rescale = tl.zeros((HP, DP), tl.float32)
    for start in range(part * chunk, tl.minimum((part + 1) * chunk, tokens), BLOCK):
        n = start + tl.arange(0, BLOCK)
        x, positive, query, norm, powered_norm = load_features(
            q, q, rescale, n, tokens, group, stride_h, stride_n, floor, False, FEATURE, POWER, HEADS, WIDTH, HP, DP,
            GROUPS)
        grad = load_tile(grad_y, n, tokens, group, WIDTH, HEADS * WIDTH, HEADS, WIDTH, HP, DP)
        grad, grad_denominator, share, share_mean = output_backward(grad, query, product, mean, bound, CLAMP, PRECISION)
        grad_product += share
        grad_mean += share_mean
        along = tl.sum(grad_denominator, axis=0)
        if FEATURE == 'focused' and GROUPS > 1:
            along = sum_over_heads(grad_y, q, rescale, state, temperature, norm, powered_norm, n, tokens, stride_h,
                                   stride_n, floor, bound, HAS_TEMPERATURE, POWER, HEADS, WIDTH, HP, DP, GROUPS,
                                   PRECISION)
        # Numerator and denominator have the same degree: all that is left along the feature is the share of eps.
        grad, share = features_backward(grad, x, positive, norm, powered_norm, -bound * along / norm, rescale, group,
                                        FEATURE, POWER, HEADS, WIDTH, HP, DP)
        grad_rescale += share
        store_tile(grad_q, grad, n, tokens, group, HEADS, WIDTH, HP, DP)
    chunks = image.to(tl.int64) * tl.num_programs(1) + part
    store_state(partial + chunks * (HEADS * (WIDTH + 1) * WIDTH), grad_product, grad_mean, group, HEADS, WIDTH, HP, DP)
    if FEATURE == 'focused':
        store_channels(partial_rescale + chunks * (HEADS * WIDTH), grad_rescale, group, HEADS, WIDTH, HP, DP)


@triton.jit
def sum_over_heads(grad_y, q, rescale, state, temperature, norm, powered_norm, n, tokens, stride_h, stride_n, floor,
                   bound, HAS_TEMPERATURE: tl.constexpr, POWER: tl.constexpr, HEADS: tl.constexpr, WIDTH: tl.constexpr,
                   HP: tl.constexpr, DP: tl.constexpr, GROUPS: tl.constexpr, PRECISION: tl.constexpr):
    """The gradients of the denominators, added up over the heads of all groups; `(BLOCK,)`."""
    total = tl.zeros_like(norm)
    for group in range(GROUPS):
        _, _, query = load_normed(q, q, rescale, norm, powered_norm, n, tokens, group, stride_h, stride_n, floor, False,
                                  'focused', POWER, HEADS, WIDTH, HP, DP)
        product, mean = load_state(state, temperature, group, HAS_TEMPERATURE, HEADS, WIDTH, HP, DP)
        grad = load_tile(grad_y, n, tokens, group, WIDTH, HEADS * WIDTH, HEADS, WIDTH, HP, DP)
        denominator, _ = denominators(query, mean, bound, False)
        grad = product_of(grad, tl.trans(product, 0, 2, 1), PRECISION)
        total -= tl.sum(tl.sum(grad * query, axis=2) / (denominator * denominator), axis=0)
    return total


@triton.jit(do_not_specialize=('tokens', 'windows', 'chunk'))
def key_backward_kernel(k, v, position, rescale, weight, grad_state, grad_k, grad_v, partial_rescale, tokens, windows,
                        chunk, stride_b, stride_h, stride_n, floor, HAS_POSITION: tl.constexpr,
                        HAS_WEIGHT: tl.constexpr, FEATURE: tl.constexpr, POWER: tl.constexpr, HEADS: tl.constexpr,
                        WIDTH: tl.constexpr, HP: tl.constexpr, DP: tl.constexpr, BLOCK: tl.constexpr,
                        GROUPS: tl.constexpr, PRECISION: tl.constexpr):
    """The gradients of one chunk of keys and values, and its share in that of the rescaling."""
    image, part, group = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    k += image.to(tl.int64) * stride_b
    v += image.to(tl.int64) * stride_b
    own = image.to(tl.int64) * tokens * (HEADS * WIDTH)
    grad_k += own
    grad_v += own
    grad_state += image.to(tl.int64) * (HEADS * (WIDTH + 1) * WIDTH)
    grad_product, grad_mean = load_state(grad_state, rescale, group, False, HEADS, WIDTH, HP, DP)
    grad_rescale = tl.zeros((HP, DP), tl.float32)
    for start in range(part * chunk, tl.minimum((part + 1) * chunk, tokens), BLOCK):
        n = start + tl.arange(0, BLOCK)
        x, positive, key, norm, powered_norm = load_features(
            k, position, rescale, n, tokens, group, stride_h, stride_n, floor, HAS_POSITION, FEATURE, POWER, HEADS,
            WIDTH, HP, DP, GROUPS)
        share = key_weights(weight, image, n, tokens, windows, HAS_WEIGHT) / tokens
        value = load_tile(v, n, tokens, group, stride_h, stride_n, HEADS, WIDTH, HP, DP)
        grad, grad_value = state_backward(key, value, share, grad_product, grad_mean, PRECISION)
        store_tile(grad_v, grad_value, n, tokens, group, HEADS, WIDTH, HP, DP)
        along = sum_of_token(grad * key) / norm
        if FEATURE == 'focused' and GROUPS > 1:
            along = along_feature(k, v, position, rescale, grad_state, norm, powered_norm, share, n, tokens, stride_h,
                                  stride_n, floor, HAS_POSITION, POWER, HEADS, WIDTH, HP, DP, GROUPS, PRECISION)
        grad, share_rescale = features_backward(grad, x, positive, norm, powered_norm, along, rescale, group, FEATURE,
                                                POWER, HEADS, WIDTH, HP, DP)
        grad_rescale += share_rescale
        store_tile(grad_k, grad, n, tokens, group, HEADS, WIDTH, HP, DP)
    if FEATURE == 'focused':
        chunks = image.to(tl.int64) * tl.num_programs(1) + part
        store_channels(partial_rescale + chunks * (HEADS * WIDTH), grad_rescale, group, HEADS, WIDTH, HP, DP)


@triton.jit
def along_feature(k, v, position, rescale, grad_state, norm, powered_norm, share, n, tokens, stride_h, stride_n, floor,
                  HAS_POSITION: tl.constexpr, POWER: tl.constexpr, HEADS: tl.constexpr, WIDTH: tl.constexpr,
                  HP: tl.constexpr, DP: tl.constexpr, GROUPS: tl.constexpr, PRECISION: tl.constexpr):
    """The part of the features' gradient along the unit feature, over the heads of all groups; `(BLOCK,)`."""
    along = tl.zeros_like(norm)
    for group in range(GROUPS):
        _, _, key = load_normed(k, position, rescale, norm, powered_norm, n, tokens, group, stride_h, stride_n, floor,
                                HAS_POSITION, 'focused', POWER, HEADS, WIDTH, HP, DP)
        grad_product, grad_mean = load_state(grad_state, rescale, group, False, HEADS, WIDTH, HP, DP)
        value = load_tile(v, n, tokens, group, stride_h, stride_n, HEADS, WIDTH, HP, DP)
        grad, _ = state_backward(key, value, share, grad_product, grad_mean, PRECISION)
        along += sum_of_token(grad * key)
    return along / norm

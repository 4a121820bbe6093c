"""Loops over the tokens of an image in Triton, the building blocks of the kernels of linear attention.

A loop reads the tokens from `first` to `last` in tiles and keeps only sums. Before the backward pass through a feature
map it reads the queries or keys again, from the cache, because they do not fit in the registers along with the rest. A
barrier keeps the compiler from merging the two reads.
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
from mmflatten.ops.kernels.tile_features import features_backward, load_features, load_inputs, load_normed
from mmflatten.ops.kernels.tiles import load_state, load_tile, store_tile, sum_of_token


@triton.jit
def sum_keys(k, v, position, rescale, weight, image, first, last, tokens, windows, group, stride_h, stride_n, floor,
             HAS_POSITION: tl.constexpr, HAS_WEIGHT: tl.constexpr, FEATURE: tl.constexpr, POWER: tl.constexpr,
             HEADS: tl.constexpr, WIDTH: tl.constexpr, HP: tl.constexpr, DP: tl.constexpr, BLOCK: tl.constexpr,
             GROUPS: tl.constexpr, PRECISION: tl.constexpr):
    """Return the contribution of the keys to `k^T v / M` and to their mean."""
    product = tl.zeros((HP, DP, DP), tl.float32)
    mean = tl.zeros((HP, DP), tl.float32)
    for start in range(first, last, BLOCK):
        n = start + tl.arange(0, BLOCK)
        _, _, key, _, _ = load_features(k, position, rescale, n, tokens, group, stride_h, stride_n, floor,
                                        HAS_POSITION, FEATURE, POWER, HEADS, WIDTH, HP, DP, GROUPS)
        key *= key_weights(weight, image, n, tokens, windows, HAS_WEIGHT)[None, :, None]
        value = load_tile(v, n, tokens, group, stride_h, stride_n, HEADS, WIDTH, HP, DP)
        product += product_of(tl.trans(key, 0, 2, 1), value, PRECISION)
        mean += tl.sum(key, axis=1)
    return product / tokens, mean / tokens


@triton.jit
def attend(q, rescale, product, mean, local, y, first, last, tokens, group, stride_h, stride_n, floor, bound,
           HAS_LOCAL: tl.constexpr, CLAMP: tl.constexpr, FEATURE: tl.constexpr, POWER: tl.constexpr,
           HEADS: tl.constexpr, WIDTH: tl.constexpr, HP: tl.constexpr, DP: tl.constexpr, BLOCK: tl.constexpr,
           GROUPS: tl.constexpr, PRECISION: tl.constexpr):
    """Store the attention output of the queries."""
    for start in range(first, last, BLOCK):
        n = start + tl.arange(0, BLOCK)
        _, _, query, _, _ = load_features(q, q, rescale, n, tokens, group, stride_h, stride_n, floor, False, FEATURE,
                                          POWER, HEADS, WIDTH, HP, DP, GROUPS)
        store_output(query, product, mean, local, y, n, tokens, group, bound, HAS_LOCAL, CLAMP, HEADS, WIDTH, HP, DP,
                     PRECISION)


@triton.jit
def queries_backward(grad_y, q, rescale, state, temperature, product, mean, grad_q, first, last, tokens, group,
                     stride_h, stride_n, floor, bound, HAS_TEMPERATURE: tl.constexpr, CLAMP: tl.constexpr,
                     FEATURE: tl.constexpr, POWER: tl.constexpr, HEADS: tl.constexpr, WIDTH: tl.constexpr,
                     HP: tl.constexpr, DP: tl.constexpr, BLOCK: tl.constexpr, GROUPS: tl.constexpr,
                     PRECISION: tl.constexpr):
    """Store the gradients of the queries; return their contribution to those of the state and the rescaling."""
    grad_product = tl.zeros((HP, DP, DP), tl.float32)
    grad_mean = tl.zeros((HP, DP), tl.float32)
    grad_rescale = tl.zeros((HP, DP), tl.float32)
    for start in tl.range(first, last, BLOCK, disable_licm=True):  # hoisted code would occupy registers
        n = start + tl.arange(0, BLOCK)
        _, _, query, norm, powered_norm = load_features(q, q, rescale, n, tokens, group, stride_h, stride_n, floor,
                                                        False, FEATURE, POWER, HEADS, WIDTH, HP, DP, GROUPS)
        grad = load_tile(grad_y, n, tokens, group, WIDTH, HEADS * WIDTH, HEADS, WIDTH, HP, DP)
        grad, grad_denominator, tile_product, tile_mean = output_backward(grad, query, product, mean, bound, CLAMP,
                                                                          PRECISION)
        grad_product += tile_product
        grad_mean += tile_mean
        total = tl.sum(grad_denominator, axis=0)
        if FEATURE == 'focused' and GROUPS > 1:
            total = sum_over_heads(grad_y, q, rescale, state, temperature, norm, powered_norm, n, tokens, stride_h,
                                   stride_n, floor, bound, HAS_TEMPERATURE, POWER, HEADS, WIDTH, HP, DP, GROUPS,
                                   PRECISION)
        tl.debug_barrier()
        x, positive = load_inputs(q, q, rescale, n, tokens, group, stride_h, stride_n, floor, False, FEATURE, HEADS,
                                  WIDTH, HP, DP)
        # Numerator and denominator scale alike with the feature, so only eps contributes to the gradient along it.
        along = -bound * total / norm
        grad, tile_rescale = features_backward(grad, x, positive, norm, powered_norm, along, rescale, group, FEATURE,
                                               POWER, HEADS, WIDTH, HP, DP)
        grad_rescale += tile_rescale
        store_tile(grad_q, grad, n, tokens, group, HEADS, WIDTH, HP, DP)
    return grad_product, grad_mean, grad_rescale


@triton.jit
def sum_over_heads(grad_y, q, rescale, state, temperature, norm, powered_norm, n, tokens, stride_h, stride_n, floor,
                   bound, HAS_TEMPERATURE: tl.constexpr, POWER: tl.constexpr, HEADS: tl.constexpr, WIDTH: tl.constexpr,
                   HP: tl.constexpr, DP: tl.constexpr, GROUPS: tl.constexpr, PRECISION: tl.constexpr):
    """Return the gradients of the denominators, summed over the heads of all groups, `(BLOCK,)`."""
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


@triton.jit
def keys_backward(k, v, position, rescale, weight, grad_state, grad_product, grad_mean, grad_k, grad_v, image, first,
                  last, tokens, windows, group, stride_h, stride_n, floor, HAS_POSITION: tl.constexpr,
                  HAS_WEIGHT: tl.constexpr, FEATURE: tl.constexpr, POWER: tl.constexpr, HEADS: tl.constexpr,
                  WIDTH: tl.constexpr, HP: tl.constexpr, DP: tl.constexpr, BLOCK: tl.constexpr, GROUPS: tl.constexpr,
                  PRECISION: tl.constexpr):
    """Store the gradients of the keys and values; return the contribution of the keys to that of the rescaling."""
    grad_rescale = tl.zeros((HP, DP), tl.float32)
    for start in range(first, last, BLOCK):
        n = start + tl.arange(0, BLOCK)
        _, _, key, norm, powered_norm = load_features(
            k, position, rescale, n, tokens, group, stride_h, stride_n, floor, HAS_POSITION, FEATURE, POWER, HEADS,
            WIDTH, HP, DP, GROUPS)
        factor = key_weights(weight, image, n, tokens, windows, HAS_WEIGHT) / tokens
        value = load_tile(v, n, tokens, group, stride_h, stride_n, HEADS, WIDTH, HP, DP)
        grad, grad_value = state_backward(key, value, factor, grad_product, grad_mean, PRECISION)
        store_tile(grad_v, grad_value, n, tokens, group, HEADS, WIDTH, HP, DP)
        along = sum_of_token(grad * key) / norm
        if FEATURE == 'focused' and GROUPS > 1:
            along = along_feature(k, v, position, rescale, grad_state, norm, powered_norm, factor, n, tokens, stride_h,
                                  stride_n, floor, HAS_POSITION, POWER, HEADS, WIDTH, HP, DP, GROUPS, PRECISION)
        tl.debug_barrier()
        x, positive = load_inputs(k, position, rescale, n, tokens, group, stride_h, stride_n, floor, HAS_POSITION,
                                  FEATURE, HEADS, WIDTH, HP, DP)
        grad, tile_rescale = features_backward(grad, x, positive, norm, powered_norm, along, rescale, group, FEATURE,
                                               POWER, HEADS, WIDTH, HP, DP)
        grad_rescale += tile_rescale
        store_tile(grad_k, grad, n, tokens, group, HEADS, WIDTH, HP, DP)
    return grad_rescale


@triton.jit
def along_feature(k, v, position, rescale, grad_state, norm, powered_norm, factor, n, tokens, stride_h, stride_n, floor,
                  HAS_POSITION: tl.constexpr, POWER: tl.constexpr, HEADS: tl.constexpr, WIDTH: tl.constexpr,
                  HP: tl.constexpr, DP: tl.constexpr, GROUPS: tl.constexpr, PRECISION: tl.constexpr):
    """Return the component of the features' gradient along the unit feature, over all groups of heads, `(BLOCK,)`."""
    along = tl.zeros_like(norm)
    for group in range(GROUPS):
        _, _, key = load_normed(k, position, rescale, norm, powered_norm, n, tokens, group, stride_h, stride_n, floor,
                                HAS_POSITION, 'focused', POWER, HEADS, WIDTH, HP, DP)
        grad_product, grad_mean = load_state(grad_state, rescale, group, False, HEADS, WIDTH, HP, DP)
        value = load_tile(v, n, tokens, group, stride_h, stride_n, HEADS, WIDTH, HP, DP)
        grad, _ = state_backward(key, value, factor, grad_product, grad_mean, PRECISION)
        along += sum_of_token(grad * key)
    return along / norm

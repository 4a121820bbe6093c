"""Fused linear attention in Triton: two kernels forward, two backward, none with atomics.

Each program walks a chunk of tokens of one image for a group of heads, reads its queries, keys and values in place, and
keeps nothing but what it adds up: float32 sums per chunk, which PyTorch then adds over the chunks. So the same input
gives the same bits. The mathematics is that of `mmflatten.ops.kernels.closed_form`.
"""
# No `from __future__ import annotations`: Triton reads the annotations of its functions.
import triton
import triton.language as tl

from mmflatten.ops.kernels.tiles import (
    focused,
    focused_backward,
    inputs_backward,
    load_features,
    load_inputs,
    load_state,
    product_of,
    store_channels,
    store_state,
    sum_of_token,
    tile_mask,
    tile_offsets,
)


@triton.jit
def key_weights(weight, image, n, tokens, windows, HAS_WEIGHT: tl.constexpr):
    """The weight of each key in the sums, of the window that the image is; 1 for all where there are none."""
    if HAS_WEIGHT:
        return tl.load(weight + (image % windows) * tokens + n, mask=n < tokens, other=0.).to(tl.float32)
    else:
        return tl.where(n < tokens, 1., 0.)


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
        _, _, feature, _, _ = load_features(k, position, rescale, n, tokens, group, stride_h, stride_n, floor,
                                            HAS_POSITION, FEATURE, POWER, HEADS, WIDTH, HP, DP, GROUPS)
        feature *= key_weights(weight, image, n, tokens, windows, HAS_WEIGHT)[None, :, None]
        mask = tile_mask(n, tokens, group, HEADS, WIDTH, HP, DP)
        value = tl.load(v + tile_offsets(n, group, stride_h, stride_n, HP, DP), mask=mask, other=0.).to(tl.float32)
        product += product_of(tl.trans(feature, 0, 2, 1), value, PRECISION)
        mean += tl.sum(feature, axis=1)
    partial += (image.to(tl.int64) * tl.num_programs(1) + part) * (HEADS * (WIDTH + 1) * WIDTH)
    store_state(partial, product / tokens, mean / tokens, group, HEADS, WIDTH, HP, DP)


@triton.jit(do_not_specialize=('tokens', 'chunk'))
def output_kernel(q, rescale, state, temperature, local, y, tokens, chunk, stride_b, stride_h, stride_n, floor, bound,
                  HAS_TEMPERATURE: tl.constexpr, HAS_LOCAL: tl.constexpr, CLAMP: tl.constexpr, FEATURE: tl.constexpr,
                  POWER: tl.constexpr, HEADS: tl.constexpr, WIDTH: tl.constexpr, HP: tl.constexpr, DP: tl.constexpr,
                  BLOCK: tl.constexpr, GROUPS: tl.constexpr, PRECISION: tl.constexpr):
    """`q (k^T v / M) / (q . mean(k) + eps)` of one chunk of queries, plus the local term."""
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
        _, _, feature, _, _ = load_features(q, q, rescale, n, tokens, group, stride_h, stride_n, floor, False, FEATURE,
                                            POWER, HEADS, WIDTH, HP, DP, GROUPS)
        denominator, _ = denominators(feature, mean, bound, CLAMP)
        out = product_of(feature, product, PRECISION) / denominator[:, :, None]
        mask = tile_mask(n, tokens, group, HEADS, WIDTH, HP, DP)
        offsets = tile_offsets(n, group, WIDTH, HEADS * WIDTH, HP, DP)
        if HAS_LOCAL:
            out += tl.load(local + offsets, mask=mask, other=0.).to(tl.float32)
        tl.store(y + offsets, out, mask=mask)


@triton.jit
def denominators(feature, mean, bound, CLAMP: tl.constexpr):
    """The denominators `(HP, BLOCK)`, and 1 where they depend on the queries."""
    denominator = tl.sum(feature * mean[:, None, :], axis=2)
    if CLAMP:
        return tl.maximum(denominator, bound), tl.where(denominator >= bound, 1., 0.)
    else:
        return denominator + bound, tl.full(denominator.shape, 1., tl.float32)


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
        mask = tile_mask(n, tokens, group, HEADS, WIDTH, HP, DP)
        offsets = tile_offsets(n, group, WIDTH, HEADS * WIDTH, HP, DP)
        value, positive, feature, norm, powered_norm = load_features(
            q, q, rescale, n, tokens, group, stride_h, stride_n, floor, False, FEATURE, POWER, HEADS, WIDTH, HP, DP,
            GROUPS)
        grad = tl.load(grad_y + offsets, mask=mask, other=0.).to(tl.float32)
        denominator, free = denominators(feature, mean, bound, CLAMP)
        grad /= denominator[:, :, None]
        grad_product += product_of(tl.trans(feature, 0, 2, 1), grad, PRECISION)
        grad = product_of(grad, tl.trans(product, 0, 2, 1), PRECISION)
        grad_denominator = -tl.sum(grad * feature, axis=2) / denominator * free
        grad_mean += tl.sum(feature * grad_denominator[:, :, None], axis=1)
        grad += grad_denominator[:, :, None] * mean[:, None, :]
        if FEATURE == 'focused':
            # Numerator and denominator have the same degree: all that is left along the feature is the share of eps.
            total = tl.sum(grad_denominator, axis=0)
            if GROUPS > 1:
                total = sum_over_heads(grad_y, q, rescale, state, temperature, norm, powered_norm, n, tokens,
                                       stride_h, stride_n, floor, bound, HAS_TEMPERATURE, POWER, HEADS, WIDTH, HP, DP,
                                       GROUPS, PRECISION)
            grad = focused_backward(grad, positive, norm, powered_norm, -bound * total / norm, POWER)
            grad_rescale += tl.sum(grad * positive, axis=1)
        grad = inputs_backward(grad, value, positive, rescale, group, FEATURE, HEADS, WIDTH, HP, DP)
        tl.store(grad_q + offsets, grad, mask=mask)
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
        _, positive = load_inputs(q, q, rescale, n, tokens, group, stride_h, stride_n, floor, False, 'focused', HEADS,
                                  WIDTH, HP, DP)
        product, mean = load_state(state, temperature, group, HAS_TEMPERATURE, HEADS, WIDTH, HP, DP)
        mask = tile_mask(n, tokens, group, HEADS, WIDTH, HP, DP)
        offsets = tile_offsets(n, group, WIDTH, HEADS * WIDTH, HP, DP)
        grad = tl.load(grad_y + offsets, mask=mask, other=0.).to(tl.float32)
        feature = focused(positive, norm, powered_norm, POWER)
        denominator, _ = denominators(feature, mean, bound, False)
        grad = product_of(grad, tl.trans(product, 0, 2, 1), PRECISION)
        total -= tl.sum(tl.sum(grad * feature, axis=2) / (denominator * denominator), axis=0)
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
        mask = tile_mask(n, tokens, group, HEADS, WIDTH, HP, DP)
        value, positive, feature, norm, powered_norm = load_features(
            k, position, rescale, n, tokens, group, stride_h, stride_n, floor, HAS_POSITION, FEATURE, POWER, HEADS,
            WIDTH, HP, DP, GROUPS)
        share = key_weights(weight, image, n, tokens, windows, HAS_WEIGHT) / tokens
        offsets = tile_offsets(n, group, WIDTH, HEADS * WIDTH, HP, DP)
        grad = product_of(feature, grad_product, PRECISION) * share[None, :, None]
        tl.store(grad_v + offsets, grad, mask=mask)
        x = tl.load(v + tile_offsets(n, group, stride_h, stride_n, HP, DP), mask=mask, other=0.).to(tl.float32)
        grad = product_of(x, tl.trans(grad_product, 0, 2, 1), PRECISION) + grad_mean[:, None, :]
        grad *= share[None, :, None]
        if FEATURE == 'focused':
            along = sum_of_token(grad * feature) / norm
            if GROUPS > 1:
                along = along_feature(k, v, position, rescale, grad_state, norm, powered_norm, share, n, tokens,
                                      stride_h, stride_n, floor, HAS_POSITION, POWER, HEADS, WIDTH, HP, DP, GROUPS,
                                      PRECISION)
            grad = focused_backward(grad, positive, norm, powered_norm, along, POWER)
            grad_rescale += tl.sum(grad * positive, axis=1)
        grad = inputs_backward(grad, value, positive, rescale, group, FEATURE, HEADS, WIDTH, HP, DP)
        tl.store(grad_k + offsets, grad, mask=mask)
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
        _, positive = load_inputs(k, position, rescale, n, tokens, group, stride_h, stride_n, floor, HAS_POSITION,
                                  'focused', HEADS, WIDTH, HP, DP)
        product, mean = load_state(grad_state, rescale, group, False, HEADS, WIDTH, HP, DP)
        mask = tile_mask(n, tokens, group, HEADS, WIDTH, HP, DP)
        x = tl.load(v + tile_offsets(n, group, stride_h, stride_n, HP, DP), mask=mask, other=0.).to(tl.float32)
        grad = product_of(x, tl.trans(product, 0, 2, 1), PRECISION) + mean[:, None, :]
        along += sum_of_token(grad * focused(positive, norm, powered_norm, POWER))
    return along * share / norm

"""Fused linear attention in Triton, without atomics: three kernels forward, four backward.

A program computes one head. Those of `norms_kernel` compute whole tokens instead, because the norms
of the focused map run over all heads; the other kernels read them. A program loops over a chunk of
tokens of one image, reads queries, keys and values in place, and accumulates float32 sums per
chunk, which PyTorch then adds over the chunks, so results are deterministic. The formulas are those
of `mmflatten.ops.linear.kernels.attention`.
"""

# No `from __future__ import annotations`: Triton reads the annotations of its functions.
import triton
import triton.language as tl

from mmflatten.ops.linear.kernels.tiles import (
    activation,
    at_least,
    doubled,
    features_backward,
    features_of,
    load_channels,
    load_norms,
    load_state,
    load_tile,
    power_below,
    store_channels,
    store_per_token,
    store_state,
    store_tile,
    sums_of_pairs,
    times_state,
)


@triton.jit(do_not_specialize=('tokens',))
def norms_kernel(
    x,
    position,
    rescale,
    norms,
    tokens,
    stride_b,
    stride_n,
    floor,
    HAS_POSITION: tl.constexpr,
    POWER: tl.constexpr,
    WIDTH: tl.constexpr,
    DP: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Store `1 / |r|` and `|r| / |u ** POWER|` of whole tokens. `WIDTH` channels are those of all
    heads.
    """
    image, n = tl.program_id(0).to(tl.int64), tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    c = tl.arange(0, DP)
    mask = (n < tokens)[:, None] & (c < WIDTH)[None, :]
    value = tl.load(
        x + image * stride_b + n[:, None] * stride_n + c[None, :], mask=mask, other=0.0
    ).to(tl.float32)
    if HAS_POSITION:
        value += tl.load(position + n[:, None] * WIDTH + c[None, :], mask=mask, other=0.0)
    positive = activation(value, tl.load(rescale + c, mask=c < WIDTH, other=0.0), floor, 'focused')
    norm = at_least(tl.sqrt(tl.sum(positive * positive, axis=1)), 1e-30)
    unit = positive * (1 / norm)[:, None]
    powered = power_below(unit, POWER) * unit
    powered_norm = at_least(tl.sqrt(tl.sum(powered * powered, axis=1)), 1e-30)
    norms += image * 2 * tokens
    tl.store(norms + 2 * n, 1 / norm, mask=n < tokens)
    tl.store(norms + 2 * n + 1, norm / powered_norm, mask=n < tokens)


@triton.jit
def place(tokens, chunk, heads):
    """Return the image and head of a program, its first token and the end of its tokens."""
    pair, part = tl.program_id(0), tl.program_id(1)
    return (
        (pair // heads).to(tl.int64),
        pair % heads,
        part * chunk,
        tl.minimum((part + 1) * chunk, tokens),
    )


@triton.jit
def load_key(
    k,
    position,
    rescale,
    start,
    tokens,
    heads,
    stride_n,
    floor,
    HAS_POSITION: tl.constexpr,
    FEATURE: tl.constexpr,
    WIDTH: tl.constexpr,
    DP: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Load keys with their positional encoding, and their activation."""
    x = load_tile(k, start, tokens, stride_n, WIDTH, DP, BLOCK)
    if HAS_POSITION:
        x += load_tile(position, start, tokens, heads * WIDTH, WIDTH, DP, BLOCK)
    return x, activation(x, rescale, floor, FEATURE)


@triton.jit
def key_weights(weight, image, n, tokens, windows, HAS_WEIGHT: tl.constexpr):
    """Weights of the keys of window `image % windows`; 1 without weights, and 0 outside the map."""
    if HAS_WEIGHT:
        return tl.load(weight + (image % windows) * tokens + n, mask=n < tokens, other=0.0).to(
            tl.float32
        )
    else:
        return tl.where(n < tokens, 1.0, 0.0)


@triton.jit
def denominators(query, mean, bound, CLAMP: tl.constexpr):
    """Reciprocal denominators, and 1 where they depend on the queries, 0 where they are clamped,
    each `(BLOCK,)`.
    """
    denominator = tl.sum(query * mean[None, :], axis=1)
    if CLAMP:
        return 1 / at_least(denominator, bound), tl.where(denominator >= bound, 1.0, 0.0)
    else:
        return 1 / (denominator + bound), tl.full(denominator.shape, 1.0, tl.float32)


@triton.jit(do_not_specialize=('tokens', 'windows', 'chunk', 'heads'))
def state_kernel(
    k,
    v,
    position,
    rescale,
    norms,
    weight,
    partial,
    tokens,
    windows,
    chunk,
    heads,
    stride_b,
    stride_h,
    stride_n,
    floor,
    HAS_POSITION: tl.constexpr,
    HAS_WEIGHT: tl.constexpr,
    FEATURE: tl.constexpr,
    POWER: tl.constexpr,
    WIDTH: tl.constexpr,
    DP: tl.constexpr,
    BLOCK: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """State of one chunk of keys: partial sums of `k^T v / M` and of the mean of the keys."""
    image, head, first, last = place(tokens, chunk, heads)
    start_h = image * stride_b + head * stride_h
    scales = load_channels(rescale + head * WIDTH, WIDTH, DP)
    product, mean = tl.zeros((DP, DP), tl.float32), tl.zeros((BLOCK, DP), tl.float32)
    for start in range(first, last, BLOCK):
        n = start + tl.arange(0, BLOCK)
        _, positive = load_key(
            k + start_h,
            position + head * WIDTH,
            scales,
            start,
            tokens,
            heads,
            stride_n,
            floor,
            HAS_POSITION,
            FEATURE,
            WIDTH,
            DP,
            BLOCK,
        )
        inverse, scale = load_norms(norms + image * 2 * tokens, n, tokens, FEATURE)
        key = features_of(
            positive,
            inverse,
            scale * key_weights(weight, image, n, tokens, windows, HAS_WEIGHT),
            FEATURE,
            POWER,
        )
        if FEATURE != 'focused':
            key *= key_weights(weight, image, n, tokens, windows, HAS_WEIGHT)[:, None]
        value = load_tile(v + start_h, start, tokens, stride_n, WIDTH, DP, BLOCK)
        product += tl.dot(tl.trans(key), value, input_precision=PRECISION)
        mean += key
    partial += ((image * heads + head) * tl.num_programs(1) + tl.program_id(1)) * (
        (WIDTH + 1) * WIDTH
    )
    store_state(partial, product / tokens, tl.sum(mean, axis=0) / tokens, WIDTH, DP)


@triton.jit(do_not_specialize=('tokens', 'chunk', 'heads'))
def output_kernel(
    q,
    rescale,
    norms,
    state,
    local,
    y,
    tokens,
    chunk,
    heads,
    stride_b,
    stride_h,
    stride_n,
    floor,
    bound,
    HAS_LOCAL: tl.constexpr,
    CLAMP: tl.constexpr,
    FEATURE: tl.constexpr,
    POWER: tl.constexpr,
    WIDTH: tl.constexpr,
    DP: tl.constexpr,
    BLOCK: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """Attention output of one chunk of queries."""
    image, head, first, last = place(tokens, chunk, heads)
    base = image * tokens * (heads * WIDTH) + head * WIDTH
    scales = load_channels(rescale + head * WIDTH, WIDTH, DP)
    product, mean = load_state(
        state + (image * heads + head) * ((WIDTH + 1) * WIDTH), False, WIDTH, DP
    )
    for start in range(first, last, BLOCK):
        n = start + tl.arange(0, BLOCK)
        x = load_tile(
            q + image * stride_b + head * stride_h, start, tokens, stride_n, WIDTH, DP, BLOCK
        )
        inverse, scale = load_norms(norms + image * 2 * tokens, n, tokens, FEATURE)
        query = features_of(activation(x, scales, floor, FEATURE), inverse, scale, FEATURE, POWER)
        inverse_z, _ = denominators(query, mean, bound, CLAMP)
        out = times_state(query * inverse_z[:, None], product, PRECISION)
        if HAS_LOCAL:
            out += load_tile(local + base, start, tokens, heads * WIDTH, WIDTH, DP, BLOCK)
        store_tile(y + base, out, start, tokens, heads * WIDTH, WIDTH, DP)


@triton.jit(do_not_specialize=('tokens', 'chunk', 'heads'))
def state_backward_kernel(
    grad_y,
    q,
    rescale,
    norms,
    state,
    grad_z,
    partial,
    tokens,
    chunk,
    heads,
    stride_b,
    stride_h,
    stride_n,
    floor,
    bound,
    CLAMP: tl.constexpr,
    FEATURE: tl.constexpr,
    POWER: tl.constexpr,
    WIDTH: tl.constexpr,
    DP: tl.constexpr,
    BLOCK: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """Partial sums of the gradients of the state over one chunk of queries, and gradients of the
    denominators.
    """
    image, head, first, last = place(tokens, chunk, heads)
    base = image * tokens * (heads * WIDTH) + head * WIDTH
    scales = load_channels(rescale + head * WIDTH, WIDTH, DP)
    product, mean = load_state(
        state + (image * heads + head) * ((WIDTH + 1) * WIDTH), True, WIDTH, DP
    )
    # from 64 rows on, Hopper multiplies with fewer barriers (wgmma)
    ROWS: tl.constexpr = 64 if DP == 32 else DP
    grad_product, grad_mean = tl.zeros((ROWS, DP), tl.float32), tl.zeros((BLOCK, DP), tl.float32)
    for start in range(first, last, BLOCK):
        n = start + tl.arange(0, BLOCK)
        x = load_tile(
            q + image * stride_b + head * stride_h, start, tokens, stride_n, WIDTH, DP, BLOCK
        )
        inverse, scale = load_norms(norms + image * 2 * tokens, n, tokens, FEATURE)
        query = features_of(activation(x, scales, floor, FEATURE), inverse, scale, FEATURE, POWER)
        inverse_z, free = denominators(query, mean, bound, CLAMP)
        grad = (
            load_tile(grad_y + base, start, tokens, heads * WIDTH, WIDTH, DP, BLOCK)
            * inverse_z[:, None]
        )
        left = doubled(query) if ROWS > DP else query
        grad_product += tl.dot(tl.trans(left), grad, input_precision=PRECISION)
        z = -tl.sum(times_state(grad, product, PRECISION) * query, axis=1) * inverse_z * free
        store_per_token(grad_z + image * tokens * heads + head, z, start, tokens, heads)
        grad_mean += query * z[:, None]
    partial += ((image * heads + head) * tl.num_programs(1) + tl.program_id(1)) * (
        (WIDTH + 1) * WIDTH
    )
    store_state(partial, grad_product, tl.sum(grad_mean, axis=0), WIDTH, DP)


@triton.jit(do_not_specialize=('tokens', 'chunk', 'heads'))
def query_backward_kernel(
    grad_y,
    q,
    rescale,
    norms,
    state,
    grad_z,
    along,
    grad_q,
    partial_rescale,
    tokens,
    chunk,
    heads,
    stride_b,
    stride_h,
    stride_n,
    floor,
    bound,
    CLAMP: tl.constexpr,
    FEATURE: tl.constexpr,
    POWER: tl.constexpr,
    WIDTH: tl.constexpr,
    DP: tl.constexpr,
    BLOCK: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """Gradients of one chunk of queries, and its partial sum of the gradient of the rescaling."""
    image, head, first, last = place(tokens, chunk, heads)
    base = image * tokens * (heads * WIDTH) + head * WIDTH
    scales = load_channels(rescale + head * WIDTH, WIDTH, DP)
    product, mean = load_state(
        state + (image * heads + head) * ((WIDTH + 1) * WIDTH), True, WIDTH, DP
    )
    grad_rescale = tl.zeros((BLOCK // 2, DP), tl.float32)
    for start in range(first, last, BLOCK):
        n = start + tl.arange(0, BLOCK)
        x = load_tile(
            q + image * stride_b + head * stride_h, start, tokens, stride_n, WIDTH, DP, BLOCK
        )
        positive = activation(x, scales, floor, FEATURE)
        inverse, scale = load_norms(norms + image * 2 * tokens, n, tokens, FEATURE)
        query = features_of(positive, inverse, scale, FEATURE, POWER)
        inverse_z, _ = denominators(query, mean, bound, CLAMP)
        z = tl.load(grad_z + (image * tokens + n) * heads + head, mask=n < tokens, other=0.0)
        grad = (
            load_tile(grad_y + base, start, tokens, heads * WIDTH, WIDTH, DP, BLOCK)
            * inverse_z[:, None]
        )
        grad = times_state(grad, product, PRECISION) + z[:, None] * mean[None, :]
        # Numerator and denominator scale alike with the features, so only eps contributes to the
        # gradient along them.
        total = -bound * tl.load(along + image * tokens + n, mask=n < tokens, other=0.0)
        grad, scaled = features_backward(
            grad, x, positive, inverse, scale, total, scales, FEATURE, POWER
        )
        grad_rescale += sums_of_pairs(scaled)
        store_tile(grad_q + base, grad, start, tokens, heads * WIDTH, WIDTH, DP)
    if FEATURE == 'focused':
        partial_rescale += ((image * tl.num_programs(1) + tl.program_id(1)) * heads + head) * WIDTH
        store_channels(partial_rescale, tl.sum(grad_rescale, axis=0), WIDTH, DP)


@triton.jit(do_not_specialize=('tokens', 'windows', 'chunk', 'heads'))
def value_backward_kernel(
    k,
    v,
    position,
    rescale,
    norms,
    weight,
    grad_state,
    grad_v,
    along,
    tokens,
    windows,
    chunk,
    heads,
    stride_b,
    stride_h,
    stride_n,
    floor,
    HAS_POSITION: tl.constexpr,
    HAS_WEIGHT: tl.constexpr,
    FEATURE: tl.constexpr,
    POWER: tl.constexpr,
    WIDTH: tl.constexpr,
    DP: tl.constexpr,
    BLOCK: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """Gradients of one chunk of values, and the products of the keys' features with their
    gradients.
    """
    image, head, first, last = place(tokens, chunk, heads)
    start_h, base = (
        image * stride_b + head * stride_h,
        image * tokens * (heads * WIDTH) + head * WIDTH,
    )
    scales = load_channels(rescale + head * WIDTH, WIDTH, DP)
    product, mean = load_state(
        grad_state + (image * heads + head) * ((WIDTH + 1) * WIDTH), False, WIDTH, DP
    )
    for start in range(first, last, BLOCK):
        n = start + tl.arange(0, BLOCK)
        _, positive = load_key(
            k + start_h,
            position + head * WIDTH,
            scales,
            start,
            tokens,
            heads,
            stride_n,
            floor,
            HAS_POSITION,
            FEATURE,
            WIDTH,
            DP,
            BLOCK,
        )
        inverse, scale = load_norms(norms + image * 2 * tokens, n, tokens, FEATURE)
        key = features_of(positive, inverse, scale, FEATURE, POWER)
        factor = key_weights(weight, image, n, tokens, windows, HAS_WEIGHT) / tokens
        grad = times_state(key, product, PRECISION) * factor[:, None]
        store_tile(grad_v + base, grad, start, tokens, heads * WIDTH, WIDTH, DP)
        if FEATURE == 'focused':
            value = load_tile(v + start_h, start, tokens, stride_n, WIDTH, DP, BLOCK)
            total = tl.sum(grad * value, axis=1) + tl.sum(key * mean[None, :], axis=1) * factor
            store_per_token(along + image * tokens * heads + head, total, start, tokens, heads)


@triton.jit(do_not_specialize=('tokens', 'windows', 'chunk', 'heads'))
def key_backward_kernel(
    k,
    v,
    position,
    rescale,
    norms,
    weight,
    grad_state,
    along,
    grad_k,
    partial_rescale,
    tokens,
    windows,
    chunk,
    heads,
    stride_b,
    stride_h,
    stride_n,
    floor,
    HAS_POSITION: tl.constexpr,
    HAS_WEIGHT: tl.constexpr,
    FEATURE: tl.constexpr,
    POWER: tl.constexpr,
    WIDTH: tl.constexpr,
    DP: tl.constexpr,
    BLOCK: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """Gradients of one chunk of keys, and its partial sum of the gradient of the rescaling."""
    image, head, first, last = place(tokens, chunk, heads)
    start_h, base = (
        image * stride_b + head * stride_h,
        image * tokens * (heads * WIDTH) + head * WIDTH,
    )
    scales = load_channels(rescale + head * WIDTH, WIDTH, DP)
    product, mean = load_state(
        grad_state + (image * heads + head) * ((WIDTH + 1) * WIDTH), True, WIDTH, DP
    )
    grad_rescale = tl.zeros((BLOCK // 2, DP), tl.float32)
    for start in range(first, last, BLOCK):
        n = start + tl.arange(0, BLOCK)
        value = load_tile(v + start_h, start, tokens, stride_n, WIDTH, DP, BLOCK)
        factor = key_weights(weight, image, n, tokens, windows, HAS_WEIGHT) / tokens
        grad = (times_state(value, product, PRECISION) + mean[None, :]) * factor[:, None]
        x, positive = load_key(
            k + start_h,
            position + head * WIDTH,
            scales,
            start,
            tokens,
            heads,
            stride_n,
            floor,
            HAS_POSITION,
            FEATURE,
            WIDTH,
            DP,
            BLOCK,
        )
        inverse, scale = load_norms(norms + image * 2 * tokens, n, tokens, FEATURE)
        total = tl.load(along + image * tokens + n, mask=n < tokens, other=0.0)
        grad, scaled = features_backward(
            grad, x, positive, inverse, scale, total, scales, FEATURE, POWER
        )
        grad_rescale += sums_of_pairs(scaled)
        store_tile(grad_k + base, grad, start, tokens, heads * WIDTH, WIDTH, DP)
    if FEATURE == 'focused':
        partial_rescale += ((image * tl.num_programs(1) + tl.program_id(1)) * heads + head) * WIDTH
        store_channels(partial_rescale, tl.sum(grad_rescale, axis=0), WIDTH, DP)

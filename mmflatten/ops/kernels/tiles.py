"""Tiles of tokens of one head in Triton: loads, stores, features and their gradients.

A tile is `(BLOCK, DP)`: tokens x channels, in float32. Half-precision inputs are converted when loaded. `DP` is a power
of two; channels beyond `WIDTH` are loaded as 0 and not stored.
"""
# No `from __future__ import annotations`: Triton reads the annotations of its functions.
import triton
import triton.language as tl


@triton.jit
def load_tile(x, n, tokens, stride, WIDTH: tl.constexpr, DP: tl.constexpr):
    """Load the tokens `n` of a head; elements that do not exist are 0."""
    c = tl.arange(0, DP)[None, :]
    return tl.load(x + n[:, None] * stride + c, mask=(n < tokens)[:, None] & (c < WIDTH), other=0.).to(tl.float32)


@triton.jit
def store_tile(x, tile, n, tokens, stride, WIDTH: tl.constexpr, DP: tl.constexpr):
    c = tl.arange(0, DP)[None, :]
    tl.store(x + n[:, None] * stride + c, tile, mask=(n < tokens)[:, None] & (c < WIDTH))


@triton.jit
def load_channels(pointer, WIDTH: tl.constexpr, DP: tl.constexpr):
    """Load one number per channel, `(DP,)`."""
    c = tl.arange(0, DP)
    return tl.load(pointer + c, mask=c < WIDTH, other=0.)


@triton.jit
def store_channels(pointer, x, WIDTH: tl.constexpr, DP: tl.constexpr):
    c = tl.arange(0, DP)
    tl.store(pointer + c, x, mask=c < WIDTH)


@triton.jit
def load_state(state, TRANSPOSED: tl.constexpr, WIDTH: tl.constexpr, DP: tl.constexpr):
    """Load the matrix `(WIDTH, WIDTH)` of a state, padded to `(DP, DP)`, and the row that follows it, `(DP,)`."""
    row, col = tl.arange(0, DP)[:, None], tl.arange(0, DP)[None, :]
    offsets = col * WIDTH + row if TRANSPOSED else row * WIDTH + col
    product = tl.load(state + offsets, mask=(row < WIDTH) & (col < WIDTH), other=0.)
    return product, load_channels(state + WIDTH * WIDTH, WIDTH, DP)


@triton.jit
def store_state(state, product, mean, WIDTH: tl.constexpr, DP: tl.constexpr):
    row, col = tl.arange(0, DP)[:, None], tl.arange(0, DP)[None, :]
    tl.store(state + row * WIDTH + col, product, mask=(row < WIDTH) & (col < WIDTH))
    store_channels(state + WIDTH * WIDTH, mean, WIDTH, DP)


@triton.jit
def relu(x):
    """`max(x, 0)`, and NaN for NaN, which `tl.maximum` replaces with 0 by default."""
    return tl.maximum(x, 0., propagate_nan=tl.PropagateNan.ALL)


@triton.jit
def at_least(x, bound):
    return tl.maximum(x, bound, propagate_nan=tl.PropagateNan.ALL)


@triton.jit
def activation(x, rescale, floor, FEATURE: tl.constexpr):
    """Activation `r` of queries or keys; `rescale` has a number per channel for the focused map."""
    if FEATURE == 'elu':
        return tl.where(x > 0, x + 1, tl.exp(tl.minimum(x, 0., propagate_nan=tl.PropagateNan.ALL)))
    elif FEATURE == 'leaky_relu':
        return tl.where(x > 0, x, .01 * x)
    elif FEATURE == 'focused':
        return (relu(x) + floor) * rescale[None, :]
    else:
        return relu(x) + floor


@triton.jit
def power_below(x, POWER: tl.constexpr):
    """Return `x ** (POWER - 1)`."""
    y = tl.full(x.shape, 1., tl.float32)
    for _ in tl.static_range(POWER - 1):
        y *= x
    return y


@triton.jit
def load_norms(norms, n, tokens, FEATURE: tl.constexpr):
    """Load `1 / |r|` and `|r| / |u ** POWER|` of the tokens `n`, each `(BLOCK,)`; 1 for maps without norms."""
    if FEATURE == 'focused':
        mask = n < tokens
        return tl.load(norms + 2 * n, mask=mask, other=1.), tl.load(norms + 2 * n + 1, mask=mask, other=1.)
    else:
        ones = tl.full(n.shape, 1., tl.float32)
        return ones, ones


@triton.jit
def features_of(positive, inverse, scale, FEATURE: tl.constexpr, POWER: tl.constexpr):
    """Features of an activation `r`: `|r| / |u ** POWER| u ** POWER` of `u = r / |r|` for the focused map, else `r`."""
    if FEATURE == 'focused':
        unit = positive * inverse[:, None]
        return power_below(unit, POWER) * (unit * scale[:, None])
    else:
        return positive


@triton.jit
def features_backward(grad, x, positive, inverse, scale, along, rescale, FEATURE: tl.constexpr, POWER: tl.constexpr):
    """Gradient of queries or keys from that of their features, and `grad * r` of the activation.

    Its sum over tokens is the gradient of the rescaling, times the rescaling. `along` is the sum over all heads of
    the products of gradient and features, `(BLOCK,)`.
    """
    if FEATURE == 'elu':
        return grad * tl.where(x > 0, 1., positive), grad
    elif FEATURE == 'leaky_relu':
        return grad * tl.where(x > 0, 1., .01), grad
    elif FEATURE == 'focused':
        unit = positive * inverse[:, None]
        below = power_below(unit, POWER) * (scale * inverse)[:, None]  # `unit * below` is the unit feature
        grad = (along * inverse)[:, None] * unit * (1 - POWER * below * below) + POWER * below * grad
        return tl.where(x <= 0, 0., grad * rescale[None, :]), grad * positive
    else:
        return tl.where(x <= 0, 0., grad), grad

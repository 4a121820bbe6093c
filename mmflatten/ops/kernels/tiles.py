"""What the Triton kernels share: tiles of tokens, their positive features, and the gradients of these.

A tile is `(HP, BLOCK, DP)`, heads x tokens x channels of a head, all in float32: half-precision numbers are widened as
they are loaded. `HP` and `DP` are powers of two; the rest beyond `HEADS` and `WIDTH` is masked. More than `HP` heads
form `GROUPS` groups, of which a program works on one; the norms over all of them it then takes in a sweep of its own,
which finds the tokens in the cache.
"""
# No `from __future__ import annotations`: Triton reads the annotations of its functions.
import triton
import triton.language as tl


@triton.jit
def tile_mask(n, tokens, group, HEADS: tl.constexpr, WIDTH: tl.constexpr, HP: tl.constexpr, DP: tl.constexpr):
    """Which elements of a tile exist."""
    head = (group * HP + tl.arange(0, HP))[:, None, None]
    width = tl.arange(0, DP)[None, None, :]
    return (head < HEADS) & (width < WIDTH) & (n < tokens)[None, :, None]


@triton.jit
def tile_offsets(n, group, stride_h, stride_n, HP: tl.constexpr, DP: tl.constexpr):
    """Where the elements of a tile lie behind the first of their image."""
    head = (group * HP + tl.arange(0, HP))[:, None, None]
    return head * stride_h + n[None, :, None] * stride_n + tl.arange(0, DP)[None, None, :]


@triton.jit
def load_channels(pointer, group, HEADS: tl.constexpr, WIDTH: tl.constexpr, HP: tl.constexpr, DP: tl.constexpr):
    """A number for every channel, `(HP, 1, DP)`."""
    head = (group * HP + tl.arange(0, HP))[:, None, None]
    width = tl.arange(0, DP)[None, None, :]
    mask = (head < HEADS) & (width < WIDTH)
    return tl.load(pointer + head * WIDTH + width, mask=mask, other=0.).to(tl.float32)


@triton.jit
def store_channels(pointer, x, group, HEADS: tl.constexpr, WIDTH: tl.constexpr, HP: tl.constexpr, DP: tl.constexpr):
    """The inverse of `load_channels`, for `x` of shape `(HP, DP)`."""
    head = (group * HP + tl.arange(0, HP))[:, None]
    width = tl.arange(0, DP)[None, :]
    tl.store(pointer + head * WIDTH + width, x, mask=(head < HEADS) & (width < WIDTH))


@triton.jit
def state_offsets(group, HEADS: tl.constexpr, WIDTH: tl.constexpr, HP: tl.constexpr, DP: tl.constexpr):
    """Where the matrices `(HP, DP, DP)` of a state lie, and which of their elements exist.

    A state is `(HEADS, WIDTH + 1, WIDTH)`: of each head the matrix `k^T v`, and in the last row the mean of the keys.
    """
    head = (group * HP + tl.arange(0, HP))[:, None, None]
    row = tl.arange(0, DP)[None, :, None]
    col = tl.arange(0, DP)[None, None, :]
    return (head * (WIDTH + 1) + row) * WIDTH + col, (head < HEADS) & (row < WIDTH) & (col < WIDTH)


@triton.jit
def mean_offsets(group, HEADS: tl.constexpr, WIDTH: tl.constexpr, HP: tl.constexpr, DP: tl.constexpr):
    """The same for the means of the keys, `(HP, DP)`."""
    head = (group * HP + tl.arange(0, HP))[:, None]
    width = tl.arange(0, DP)[None, :]
    return (head * (WIDTH + 1) + WIDTH) * WIDTH + width, (head < HEADS) & (width < WIDTH)


@triton.jit
def load_state(state, temperature, group, HAS_TEMPERATURE: tl.constexpr, HEADS: tl.constexpr, WIDTH: tl.constexpr,
               HP: tl.constexpr, DP: tl.constexpr):
    """`k^T v`, times the temperature of each head, and the mean of the keys."""
    offsets, mask = state_offsets(group, HEADS, WIDTH, HP, DP)
    product = tl.load(state + offsets, mask=mask, other=0.)
    if HAS_TEMPERATURE:
        head = group * HP + tl.arange(0, HP)
        product *= tl.load(temperature + head, mask=head < HEADS, other=0.).to(tl.float32)[:, None, None]
    offsets, mask = mean_offsets(group, HEADS, WIDTH, HP, DP)
    return product, tl.load(state + offsets, mask=mask, other=0.)


@triton.jit
def store_state(state, product, mean, group, HEADS: tl.constexpr, WIDTH: tl.constexpr, HP: tl.constexpr,
                DP: tl.constexpr):
    """The inverse of `load_state`, without temperatures."""
    offsets, mask = state_offsets(group, HEADS, WIDTH, HP, DP)
    tl.store(state + offsets, product, mask=mask)
    offsets, mask = mean_offsets(group, HEADS, WIDTH, HP, DP)
    tl.store(state + offsets, mean, mask=mask)


@triton.jit
def load_inputs(x, position, rescale, n, tokens, group, stride_h, stride_n, floor, HAS_POSITION: tl.constexpr,
                FEATURE: tl.constexpr, HEADS: tl.constexpr, WIDTH: tl.constexpr, HP: tl.constexpr, DP: tl.constexpr):
    """Queries or keys with their positional rows, and what the activation makes of them; 0 outside of the mask."""
    mask = tile_mask(n, tokens, group, HEADS, WIDTH, HP, DP)
    value = tl.load(x + tile_offsets(n, group, stride_h, stride_n, HP, DP), mask=mask, other=0.).to(tl.float32)
    if HAS_POSITION:
        rows = tile_offsets(n, group, WIDTH, HEADS * WIDTH, HP, DP)
        value += tl.load(position + rows, mask=mask, other=0.).to(tl.float32)
    if FEATURE == 'elu':
        positive = tl.where(value > 0, value + 1, tl.exp(tl.minimum(value, 0.)))
    elif FEATURE == 'leaky_relu':
        positive = tl.where(value > 0, value, .01 * value)
    else:
        positive = tl.maximum(value, 0.) + floor
    if FEATURE == 'focused':
        positive *= load_channels(rescale, group, HEADS, WIDTH, HP, DP)
    return value, tl.where(mask, positive, 0.)


@triton.jit
def product_of(a, b, PRECISION: tl.constexpr):
    """The matrix product of each head. A warp computes one head, so that a single one takes a product of its own."""
    if a.shape[0] == 1:
        flat = tl.dot(tl.reshape(a, a.shape[1:]), tl.reshape(b, b.shape[1:]), input_precision=PRECISION)
        return tl.reshape(flat, (1, a.shape[1], b.shape[2]))
    else:
        return tl.dot(a, b, input_precision=PRECISION)


@triton.jit
def sum_of_token(x):
    """`(HP, BLOCK, DP) -> (BLOCK,)`."""
    return tl.sum(tl.sum(x, axis=2), axis=0)


@triton.jit
def power_below(x, POWER: tl.constexpr):
    """`x ** (POWER - 1)`."""
    y = tl.full(x.shape, 1., tl.float32)
    for _ in tl.static_range(POWER - 1):
        y *= x
    return y


@triton.jit
def token_norms(positive, x, position, rescale, n, tokens, stride_h, stride_n, floor, HAS_POSITION: tl.constexpr,
                POWER: tl.constexpr, HEADS: tl.constexpr, WIDTH: tl.constexpr, HP: tl.constexpr, DP: tl.constexpr,
                GROUPS: tl.constexpr):
    """Of each token the norm of `r`, and that of `(r / |r|) ** POWER`, over the channels of all heads; `(BLOCK,)` each.

    The power is taken of a unit vector, so it neither overflows nor vanishes.
    """
    if GROUPS == 1:
        norm = tl.maximum(tl.sqrt(sum_of_token(positive * positive)), 1e-30)
        unit = positive / norm[None, :, None]
        powered = power_below(unit, POWER) * unit
        return norm, tl.maximum(tl.sqrt(sum_of_token(powered * powered)), 1e-30)
    squares = tl.zeros_like(n).to(tl.float32)
    for group in range(GROUPS):
        _, other = load_inputs(x, position, rescale, n, tokens, group, stride_h, stride_n, floor, HAS_POSITION,
                               'focused', HEADS, WIDTH, HP, DP)
        squares += sum_of_token(other * other)
    norm = tl.maximum(tl.sqrt(squares), 1e-30)
    squares = tl.zeros_like(n).to(tl.float32)
    for group in range(GROUPS):
        _, other = load_inputs(x, position, rescale, n, tokens, group, stride_h, stride_n, floor, HAS_POSITION,
                               'focused', HEADS, WIDTH, HP, DP)
        unit = other / norm[None, :, None]
        powered = power_below(unit, POWER) * unit
        squares += sum_of_token(powered * powered)
    return norm, tl.maximum(tl.sqrt(squares), 1e-30)


@triton.jit
def focused(positive, norm, powered_norm, POWER: tl.constexpr):
    """`|r| / |r ** POWER| r ** POWER`."""
    unit = positive / norm[None, :, None]
    return power_below(unit, POWER) * unit * (norm / powered_norm)[None, :, None]


@triton.jit
def load_features(x, position, rescale, n, tokens, group, stride_h, stride_n, floor, HAS_POSITION: tl.constexpr,
                  FEATURE: tl.constexpr, POWER: tl.constexpr, HEADS: tl.constexpr, WIDTH: tl.constexpr,
                  HP: tl.constexpr, DP: tl.constexpr, GROUPS: tl.constexpr):
    """The features of a tile and the steps to them: the input, the activation, the features, and both norms."""
    value, positive = load_inputs(x, position, rescale, n, tokens, group, stride_h, stride_n, floor, HAS_POSITION,
                                  FEATURE, HEADS, WIDTH, HP, DP)
    if FEATURE == 'focused':
        norm, powered_norm = token_norms(positive, x, position, rescale, n, tokens, stride_h, stride_n, floor,
                                         HAS_POSITION, POWER, HEADS, WIDTH, HP, DP, GROUPS)
        return value, positive, focused(positive, norm, powered_norm, POWER), norm, powered_norm
    else:
        one = tl.full(n.shape, 1., tl.float32)
        return value, positive, positive, one, one


@triton.jit
def focused_backward(grad, positive, norm, powered_norm, along, POWER: tl.constexpr):
    """The gradient of `r` from that of `focused(r)`; `along` is the part of `grad` along the unit feature, `(BLOCK,)`.
    """
    unit = positive / norm[None, :, None]
    below = power_below(unit, POWER)
    feature = below * unit / powered_norm[None, :, None]
    across = (grad - along[None, :, None] * feature) / powered_norm[None, :, None]
    return along[None, :, None] * unit + POWER * below * across


@triton.jit
def inputs_backward(grad, value, positive, rescale, group, FEATURE: tl.constexpr, HEADS: tl.constexpr,
                    WIDTH: tl.constexpr, HP: tl.constexpr, DP: tl.constexpr):
    """The gradient of the queries or keys from that of what the activation made of them."""
    if FEATURE == 'elu':
        return grad * tl.where(value > 0, 1., positive)
    if FEATURE == 'leaky_relu':
        return grad * tl.where(value > 0, 1., .01)
    if FEATURE == 'focused':
        grad *= load_channels(rescale, group, HEADS, WIDTH, HP, DP)
    return tl.where(value > 0, grad, 0.)

"""Tiles of tokens of one head in Triton: loads, stores, features and their gradients.

A tile is `(BLOCK, DP)`: tokens x channels, in float32. Half-precision inputs are converted when
loaded. `DP` is a power of two; channels beyond `WIDTH` are loaded as 0 and not stored.

Tokens are in order, channels are not: column `32 h + 8 j + 2 a + b` holds channel
`32 h + 8 a + 2 j + b` (with 16 channels, column `8 j + 2 a + b` channel `4 a + 2 j + b`). A thread
loads neighbouring channels, and in the result of a matrix product it holds pairs of columns, 8
apart. In this order they are the same numbers, so tiles need no conversion between layouts, for
which Triton takes shared memory and two barriers. It holds for 32 and 64 channels on compute
capability 9.0; elsewhere Triton converts.
"""

# No `from __future__ import annotations`: Triton reads the annotations of its functions.
import triton
import triton.language as tl


@triton.jit
def tokens_and_channels(start, BLOCK: tl.constexpr, DP: tl.constexpr):
    """Return tokens and channels of the elements of a tile as they are loaded, up to 32 channels in
    a row.

    Row `i + 8 w + (BLOCK / 2) r + BLOCK h` has the channels from `32 h` on of token
    `16 w + 8 r + i`, in warp `w`.
    """
    C: tl.constexpr = min(DP, 32)
    WARPS: tl.constexpr = BLOCK // 16
    row = tl.arange(0, BLOCK * DP // C)
    n = start + row // 8 % WARPS * 16 + row // (8 * WARPS) % 2 * 8 + row % 8
    return n[:, None], (row // BLOCK * C)[:, None] + tl.arange(0, C)[None, :]


@triton.jit
def load_tile(x, start, tokens, stride, WIDTH: tl.constexpr, DP: tl.constexpr, BLOCK: tl.constexpr):
    """Load `BLOCK` tokens of a head; elements that do not exist are 0."""
    C: tl.constexpr = min(DP, 32)
    n, c = tokens_and_channels(start, BLOCK, DP)
    y = tl.load(x + n * stride + c, mask=(n < tokens) & (c < WIDTH), other=0.0)
    y = tl.permute(tl.reshape(y, (DP // C, 2, BLOCK // 16, 8, 4, C // 8, 2)), (2, 1, 3, 0, 5, 4, 6))
    return tl.reshape(y, (BLOCK, DP)).to(tl.float32)


@triton.jit
def store_tile(x, tile, start, tokens, stride, WIDTH: tl.constexpr, DP: tl.constexpr):
    BLOCK: tl.constexpr = tile.shape[0]
    C: tl.constexpr = min(DP, 32)
    n, c = tokens_and_channels(start, BLOCK, DP)
    y = tl.reshape(tile.to(x.dtype.element_ty), (BLOCK // 16, 2, 8, DP // C, C // 8, 4, 2))
    y = tl.reshape(tl.permute(y, (3, 1, 0, 2, 5, 4, 6)), (BLOCK * DP // C, C))
    tl.store(x + n * stride + c, y, mask=(n < tokens) & (c < WIDTH))


@triton.jit
def store_per_token(x, values, start, tokens, stride):
    """Store one number per token. Four threads hold each; the first stores it."""
    BLOCK: tl.constexpr = values.shape[0]
    n, thread = tokens_and_channels(start, BLOCK, 4)
    y = tl.reshape(tl.permute(tl.reshape(values, (BLOCK // 16, 2, 8)), (1, 0, 2)), (BLOCK, 1))
    tl.store(
        x + n * stride + thread, tl.broadcast_to(y, (BLOCK, 4)), mask=(n < tokens) & (thread == 0)
    )


@triton.jit
def channels_of(columns, DP: tl.constexpr, LEFT: tl.constexpr = False):
    """Return the channels that columns of a tile hold; with `LEFT`, of the left factor in
    `times_state`.
    """
    C: tl.constexpr = min(DP, 32)
    if LEFT:
        a, b = columns % 4, columns // 4 % 2
    else:
        a, b = columns // 2 % 4, columns % 2
    return columns // C * C + a * (C // 4) + columns % C // 8 * 2 + b


@triton.jit
def times_state(tile, product, PRECISION: tl.constexpr):
    """Multiply a tile with the matrix of `load_state`; its columns are reordered so that they stay
    in their threads.
    """
    BLOCK: tl.constexpr = tile.shape[0]
    DP: tl.constexpr = tile.shape[1]
    left = tl.reshape(
        tl.permute(tl.reshape(tile, (BLOCK, DP // 8, 4, 2)), (0, 1, 3, 2)), (BLOCK, DP)
    )
    return tl.dot(left, product, input_precision=PRECISION)


@triton.jit
def doubled(tile):
    """Repeat the columns of a tile behind themselves, `(BLOCK, 2 DP)`."""
    twice = tl.permute(tl.join(tile, tile), (0, 2, 1))
    return tl.reshape(twice, (tile.shape[0], 2 * tile.shape[1]))


@triton.jit
def sums_of_pairs(tile):
    """Add rows of one thread in pairs, `(BLOCK // 2, DP)`, so that a sum over tokens takes half as
    many registers.
    """
    BLOCK: tl.constexpr = tile.shape[0]
    DP: tl.constexpr = tile.shape[1]
    return tl.reshape(tl.sum(tl.reshape(tile, (BLOCK // 16, 2, 8, DP)), axis=1), (BLOCK // 2, DP))


@triton.jit
def load_channels(pointer, WIDTH: tl.constexpr, DP: tl.constexpr):
    """Load one number per channel in the order of a tile, `(DP,)`."""
    c = channels_of(tl.arange(0, DP), DP)
    return tl.load(pointer + c, mask=c < WIDTH, other=0.0)


@triton.jit
def store_channels(pointer, x, WIDTH: tl.constexpr, DP: tl.constexpr):
    c = channels_of(tl.arange(0, DP), DP)
    tl.store(pointer + c, x, mask=c < WIDTH)


@triton.jit
def load_state(state, TRANSPOSED: tl.constexpr, WIDTH: tl.constexpr, DP: tl.constexpr):
    """Load the matrix `(WIDTH, WIDTH)` of a state, padded to `(DP, DP)`, and the row that follows
    it, `(DP,)`.

    The rows are in the order of the left factor in `times_state`, the columns in that of a tile.
    """
    columns = tl.arange(0, DP)
    row, col = channels_of(columns, DP, LEFT=True)[:, None], channels_of(columns, DP)[None, :]
    offsets = col * WIDTH + row if TRANSPOSED else row * WIDTH + col
    product = tl.load(state + offsets, mask=(row < WIDTH) & (col < WIDTH), other=0.0)
    return product, load_channels(state + WIDTH * WIDTH, WIDTH, DP)


@triton.jit
def store_state(state, product, mean, WIDTH: tl.constexpr, DP: tl.constexpr):
    """Store the product of two tiles, without rows that `doubled` has added, and the row that
    follows it.
    """
    row, col = (
        channels_of(tl.arange(0, product.shape[0]), DP)[:, None],
        channels_of(tl.arange(0, DP), DP)[None, :],
    )
    tl.store(state + row * WIDTH + col, product, mask=(row < WIDTH) & (col < WIDTH))
    store_channels(state + WIDTH * WIDTH, mean, WIDTH, DP)


@triton.jit
def relu(x):
    """`max(x, 0)`, and NaN for NaN, which `tl.maximum` replaces with 0 by default."""
    return tl.maximum(x, 0.0, propagate_nan=tl.PropagateNan.ALL)


@triton.jit
def at_least(x, bound):
    return tl.maximum(x, bound, propagate_nan=tl.PropagateNan.ALL)


@triton.jit
def activation(x, rescale, floor, FEATURE: tl.constexpr):
    """Activation `r` of queries or keys; `rescale` has a number per channel for the focused map."""
    if FEATURE == 'elu':
        return tl.where(x > 0, x + 1, tl.exp(tl.minimum(x, 0.0, propagate_nan=tl.PropagateNan.ALL)))
    elif FEATURE == 'leaky_relu':
        return tl.where(x > 0, x, 0.01 * x)
    elif FEATURE == 'focused':
        return (relu(x) + floor) * rescale[None, :]
    else:
        return relu(x) + floor


@triton.jit
def power_below(x, POWER: tl.constexpr):
    """Return `x ** (POWER - 1)`."""
    y = tl.full(x.shape, 1.0, tl.float32)
    for _ in tl.static_range(POWER - 1):
        y *= x
    return y


@triton.jit
def load_norms(norms, n, tokens, FEATURE: tl.constexpr):
    """Load `1 / |r|` and `|r| / |u ** POWER|` of the tokens `n`, each `(BLOCK,)`; 1 for maps
    without norms.
    """
    if FEATURE == 'focused':
        mask = n < tokens
        return tl.load(norms + 2 * n, mask=mask, other=1.0), tl.load(
            norms + 2 * n + 1, mask=mask, other=1.0
        )
    else:
        ones = tl.full(n.shape, 1.0, tl.float32)
        return ones, ones


@triton.jit
def features_of(positive, inverse, scale, FEATURE: tl.constexpr, POWER: tl.constexpr):
    """Features of an activation `r`: `|r| / |u ** POWER| u ** POWER` of `u = r / |r|` for the
    focused map, else `r`.
    """
    if FEATURE == 'focused':
        unit = positive * inverse[:, None]
        return power_below(unit, POWER) * (unit * scale[:, None])
    else:
        return positive


@triton.jit
def features_backward(
    grad, x, positive, inverse, scale, along, rescale, FEATURE: tl.constexpr, POWER: tl.constexpr
):
    """Gradient of queries or keys from that of their features, and `grad * r` of the activation.

    Its sum over tokens is the gradient of the rescaling, times the rescaling. `along` is the sum
    over all heads of the products of gradient and features, `(BLOCK,)`.
    """
    if FEATURE == 'elu':
        return grad * tl.where(x > 0, 1.0, positive), grad
    elif FEATURE == 'leaky_relu':
        return grad * tl.where(x > 0, 1.0, 0.01), grad
    elif FEATURE == 'focused':
        unit = positive * inverse[:, None]
        # `unit * below` is the unit feature
        below = power_below(unit, POWER) * (scale * inverse)[:, None]
        grad = (along * inverse)[:, None] * unit * (
            1 - POWER * below * below
        ) + POWER * below * grad
        return tl.where(x <= 0, 0.0, grad * rescale[None, :]), grad * positive
    else:
        return tl.where(x <= 0, 0.0, grad), grad

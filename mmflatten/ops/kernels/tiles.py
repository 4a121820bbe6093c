"""Tiles of tokens in Triton, and the states that are summed from them.

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
def load_tile(x, n, tokens, group, stride_h, stride_n, HEADS: tl.constexpr, WIDTH: tl.constexpr, HP: tl.constexpr,
              DP: tl.constexpr):
    """The tile in float32, 0 where it has no element."""
    mask = tile_mask(n, tokens, group, HEADS, WIDTH, HP, DP)
    return tl.load(x + tile_offsets(n, group, stride_h, stride_n, HP, DP), mask=mask, other=0.).to(tl.float32)


@triton.jit
def store_tile(x, tile, n, tokens, group, HEADS: tl.constexpr, WIDTH: tl.constexpr, HP: tl.constexpr,
               DP: tl.constexpr):
    """The inverse of `load_tile`, in a tensor `(tokens, HEADS, WIDTH)` of its own."""
    mask = tile_mask(n, tokens, group, HEADS, WIDTH, HP, DP)
    tl.store(x + tile_offsets(n, group, WIDTH, HEADS * WIDTH, HP, DP), tile, mask=mask)


@triton.jit
def load_heads(pointer, group, HEADS: tl.constexpr, HP: tl.constexpr):
    """A number for every head, `(HP, 1, 1)`."""
    head = (group * HP + tl.arange(0, HP))[:, None, None]
    return tl.load(pointer + head, mask=head < HEADS, other=0.).to(tl.float32)


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
        product *= load_heads(temperature, group, HEADS, HP)
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
def sum_of_token(x):
    """`(HP, BLOCK, DP) -> (BLOCK,)`."""
    return tl.sum(tl.sum(x, axis=2), axis=0)

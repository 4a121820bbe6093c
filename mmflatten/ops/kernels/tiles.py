"""Tiles of tokens in Triton, and the states that are summed from them.

A tile is `(HP, BLOCK, DP)`: heads x tokens x channels of a head, in float32. Half-precision inputs are converted when
loaded. `HP` and `DP` are powers of two; elements beyond `HEADS` and `WIDTH` are masked. More than `HP` heads form
`GROUPS` groups. A program computes one group; norms over all heads take a separate loop, which reads from the cache.
"""
# No `from __future__ import annotations`: Triton reads the annotations of its functions.
import triton
import triton.language as tl


@triton.jit
def tile_mask(n, tokens, group, HEADS: tl.constexpr, WIDTH: tl.constexpr, HP: tl.constexpr, DP: tl.constexpr):
    """Mask of the elements of a tile that exist."""
    head = (group * HP + tl.arange(0, HP))[:, None, None]
    width = tl.arange(0, DP)[None, None, :]
    return (head < HEADS) & (width < WIDTH) & (n < tokens)[None, :, None]


@triton.jit
def tile_offsets(n, group, stride_h, stride_n, HP: tl.constexpr, DP: tl.constexpr):
    """Offsets of the elements of a tile from the first element of the image."""
    head = (group * HP + tl.arange(0, HP))[:, None, None]
    return head * stride_h + n[None, :, None] * stride_n + tl.arange(0, DP)[None, None, :]


@triton.jit
def load_tile(x, n, tokens, group, stride_h, stride_n, HEADS: tl.constexpr, WIDTH: tl.constexpr, HP: tl.constexpr,
              DP: tl.constexpr):
    """Load a tile in float32; masked elements are 0."""
    mask = tile_mask(n, tokens, group, HEADS, WIDTH, HP, DP)
    return tl.load(x + tile_offsets(n, group, stride_h, stride_n, HP, DP), mask=mask, other=0.).to(tl.float32)


@triton.jit
def store_tile(x, tile, n, tokens, group, HEADS: tl.constexpr, WIDTH: tl.constexpr, HP: tl.constexpr,
               DP: tl.constexpr):
    """Store a tile in a contiguous tensor `(tokens, HEADS, WIDTH)`."""
    mask = tile_mask(n, tokens, group, HEADS, WIDTH, HP, DP)
    tl.store(x + tile_offsets(n, group, WIDTH, HEADS * WIDTH, HP, DP), tile, mask=mask)


@triton.jit
def load_heads(pointer, group, HEADS: tl.constexpr, HP: tl.constexpr):
    """Load one number per head, `(HP, 1, 1)`."""
    head = (group * HP + tl.arange(0, HP))[:, None, None]
    return tl.load(pointer + head, mask=head < HEADS, other=0.).to(tl.float32)


@triton.jit
def load_channels(pointer, group, HEADS: tl.constexpr, WIDTH: tl.constexpr, HP: tl.constexpr, DP: tl.constexpr):
    """Load one number per channel, `(HP, 1, DP)`."""
    head = (group * HP + tl.arange(0, HP))[:, None, None]
    width = tl.arange(0, DP)[None, None, :]
    mask = (head < HEADS) & (width < WIDTH)
    return tl.load(pointer + head * WIDTH + width, mask=mask, other=0.).to(tl.float32)


@triton.jit
def store_channels(pointer, x, group, HEADS: tl.constexpr, WIDTH: tl.constexpr, HP: tl.constexpr, DP: tl.constexpr):
    """Store one number per channel, from `x` of shape `(HP, DP)`."""
    head = (group * HP + tl.arange(0, HP))[:, None]
    width = tl.arange(0, DP)[None, :]
    tl.store(pointer + head * WIDTH + width, x, mask=(head < HEADS) & (width < WIDTH))


@triton.jit
def state_offsets(group, HEADS: tl.constexpr, WIDTH: tl.constexpr, HP: tl.constexpr, DP: tl.constexpr):
    """Offsets and mask of the matrices `(HP, DP, DP)` of a state.

    A state is `(HEADS, WIDTH + 1, WIDTH)`: the matrix `k^T v` of each head, then the mean of the keys as the last row.
    """
    head = (group * HP + tl.arange(0, HP))[:, None, None]
    row = tl.arange(0, DP)[None, :, None]
    col = tl.arange(0, DP)[None, None, :]
    return (head * (WIDTH + 1) + row) * WIDTH + col, (head < HEADS) & (row < WIDTH) & (col < WIDTH)


@triton.jit
def mean_offsets(group, HEADS: tl.constexpr, WIDTH: tl.constexpr, HP: tl.constexpr, DP: tl.constexpr):
    """Offsets and mask of the means of the keys, `(HP, DP)`, in a state."""
    head = (group * HP + tl.arange(0, HP))[:, None]
    width = tl.arange(0, DP)[None, :]
    return (head * (WIDTH + 1) + WIDTH) * WIDTH + width, (head < HEADS) & (width < WIDTH)


@triton.jit
def load_state(state, temperature, group, HAS_TEMPERATURE: tl.constexpr, HEADS: tl.constexpr, WIDTH: tl.constexpr,
               HP: tl.constexpr, DP: tl.constexpr):
    """Load `k^T v`, times the temperature of each head, and the mean of the keys."""
    offsets, mask = state_offsets(group, HEADS, WIDTH, HP, DP)
    product = tl.load(state + offsets, mask=mask, other=0.)
    if HAS_TEMPERATURE:
        product *= load_heads(temperature, group, HEADS, HP)
    offsets, mask = mean_offsets(group, HEADS, WIDTH, HP, DP)
    return product, tl.load(state + offsets, mask=mask, other=0.)


@triton.jit
def store_state(state, product, mean, group, HEADS: tl.constexpr, WIDTH: tl.constexpr, HP: tl.constexpr,
                DP: tl.constexpr):
    """Store `k^T v` and the mean of the keys."""
    offsets, mask = state_offsets(group, HEADS, WIDTH, HP, DP)
    tl.store(state + offsets, product, mask=mask)
    offsets, mask = mean_offsets(group, HEADS, WIDTH, HP, DP)
    tl.store(state + offsets, mean, mask=mask)


@triton.jit
def sum_of_token(x):
    """Sum over heads and channels, `(HP, BLOCK, DP) -> (BLOCK,)`."""
    return tl.sum(tl.sum(x, axis=2), axis=0)

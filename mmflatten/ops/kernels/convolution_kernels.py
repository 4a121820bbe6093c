"""Depthwise convolution of tokens in Triton, on channels-last maps preceded by prefix tokens."""
# No `from __future__ import annotations`: Triton reads the annotations of its functions.
import triton
import triton.language as tl


@triton.jit(do_not_specialize=('height', 'width', 'prefix'))
def convolve_kernel(x, weight, bias, y, height, width, prefix, stride_b, stride_n, HAS_BIAS: tl.constexpr,
                    FLIP: tl.constexpr, SIDE: tl.constexpr, CHANNELS: tl.constexpr, WEIGHTS: tl.constexpr,
                    BLOCK: tl.constexpr, BC: tl.constexpr):
    """Convolve `BLOCK` tokens and `BC` channels with weights `(SIDE, SIDE, WEIGHTS)`; `FLIP` transposes it.

    `WEIGHTS` divides `CHANNELS`; the weights are repeated for every `WEIGHTS` channels.
    """
    image = tl.program_id(0).to(tl.int64)
    n = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    c = tl.program_id(2) * BC + tl.arange(0, BC)
    x += image * stride_b + prefix * stride_n
    y += (image * (prefix + height * width) + prefix) * CHANNELS
    row, col, shared_c = n // width, n % width, c % WEIGHTS
    out = tl.zeros((BLOCK, BC), tl.float32)
    if HAS_BIAS:
        out += tl.load(bias + shared_c)[None, :]
    for tap in tl.static_range(SIDE * SIDE):
        other_row, other_col = row + (tap // SIDE - SIDE // 2), col + (tap % SIDE - SIDE // 2)
        inside = (other_row >= 0) & (other_row < height) & (other_col >= 0) & (other_col < width)
        mask = inside[:, None] & (c < CHANNELS)[None, :]
        neighbour = tl.load(x + (other_row * width + other_col)[:, None] * stride_n + c[None, :], mask=mask, other=0.)
        factor = tl.load(weight + (SIDE * SIDE - 1 - tap if FLIP else tap) * WEIGHTS + shared_c)
        out += neighbour.to(tl.float32) * factor[None, :]
    mask = (n < height * width)[:, None] & (c < CHANNELS)[None, :]
    tl.store(y + n[:, None] * CHANNELS + c[None, :], out, mask=mask)


@triton.jit(do_not_specialize=('height', 'width', 'prefix', 'chunk'))
def weight_backward_kernel(grad, x, partial, height, width, prefix, chunk, stride_b, stride_n, SIDE: tl.constexpr,
                           SIDE_P: tl.constexpr, CHANNELS: tl.constexpr, BLOCK: tl.constexpr, BC: tl.constexpr):
    """Partial gradients of one row of the weights, and of the bias after the last row, from a chunk of tokens.

    `SIDE_P` is the next power of two of `SIDE`.
    """
    image, part = tl.program_id(0).to(tl.int64), tl.program_id(1)
    line, first = tl.program_id(2) % SIDE, tl.program_id(2) // SIDE * BC
    c, shift = first + tl.arange(0, BC), tl.arange(0, SIDE_P)
    x += image * stride_b + prefix * stride_n
    grad += (image * (prefix + height * width) + prefix) * CHANNELS
    sums = tl.zeros((SIDE_P, BLOCK, BC), tl.float32)
    total = tl.zeros((BLOCK, BC), tl.float32)
    for start in range(part * chunk, tl.minimum((part + 1) * chunk, height * width), BLOCK):
        n = start + tl.arange(0, BLOCK)
        mask = (n < height * width)[:, None] & (c < CHANNELS)[None, :]
        grad_y = tl.load(grad + n[:, None] * CHANNELS + c[None, :], mask=mask, other=0.).to(tl.float32)
        row = n // width + line - SIDE // 2
        col = (n % width)[None, :] + shift[:, None] - SIDE // 2
        inside = (row >= 0)[None, :] & (row < height)[None, :] & (col >= 0) & (col < width) & (shift < SIDE)[:, None]
        mask = inside[:, :, None] & (c < CHANNELS)[None, None, :]
        offsets = (row * width)[None, :] + col
        neighbour = tl.load(x + offsets[:, :, None] * stride_n + c[None, None, :], mask=mask, other=0.).to(tl.float32)
        sums += neighbour * grad_y[None, :, :]
        total += grad_y
    partial += (image * tl.num_programs(1) + part) * (SIDE * SIDE + 1) * CHANNELS
    taps = line * SIDE + shift[:, None]
    sums = tl.sum(sums, axis=1)
    tl.store(partial + taps * CHANNELS + c[None, :], sums, mask=(shift < SIDE)[:, None] & (c < CHANNELS)[None, :])
    if line == 0:
        tl.store(partial + SIDE * SIDE * CHANNELS + c, tl.sum(total, axis=0), mask=c < CHANNELS)

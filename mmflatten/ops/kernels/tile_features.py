"""Positive features of a tile of queries or keys in Triton, forward and backward."""
# No `from __future__ import annotations`: Triton reads the annotations of its functions.
import triton
import triton.language as tl

from mmflatten.ops.kernels.tiles import load_channels, load_tile, sum_of_token, tile_mask


@triton.jit
def load_inputs(x, position, rescale, n, tokens, group, stride_h, stride_n, floor, HAS_POSITION: tl.constexpr,
                FEATURE: tl.constexpr, HEADS: tl.constexpr, WIDTH: tl.constexpr, HP: tl.constexpr, DP: tl.constexpr):
    """Load queries or keys with their positional encoding, and apply the activation; it is 0 outside the mask."""
    value = load_tile(x, n, tokens, group, stride_h, stride_n, HEADS, WIDTH, HP, DP)
    if HAS_POSITION:
        value += load_tile(position, n, tokens, group, WIDTH, HEADS * WIDTH, HEADS, WIDTH, HP, DP)
    if FEATURE == 'elu':
        positive = tl.where(value > 0, value + 1, tl.exp(tl.minimum(value, 0.)))
    elif FEATURE == 'leaky_relu':
        positive = tl.where(value > 0, value, .01 * value)
    else:
        positive = tl.maximum(value, 0.) + floor
    if FEATURE == 'focused':
        positive *= load_channels(rescale, group, HEADS, WIDTH, HP, DP)
    return value, tl.where(tile_mask(n, tokens, group, HEADS, WIDTH, HP, DP), positive, 0.)


@triton.jit
def power_below(x, POWER: tl.constexpr):
    """Return `x ** (POWER - 1)`."""
    y = tl.full(x.shape, 1., tl.float32)
    for _ in tl.static_range(POWER - 1):
        y *= x
    return y


@triton.jit
def powered_squares(positive, norm, POWER: tl.constexpr):
    """Sum `(r / |r|) ** (2 POWER)` over the channels of a tile, `(BLOCK,)`.

    Powers of unit vectors neither overflow nor underflow.
    """
    unit = positive / norm[None, :, None]
    powered = power_below(unit, POWER) * unit
    return sum_of_token(powered * powered)


@triton.jit
def root(squares):
    return tl.maximum(tl.sqrt(squares), 1e-30)


@triton.jit
def token_norms(x, position, rescale, n, tokens, stride_h, stride_n, floor, HAS_POSITION: tl.constexpr,
                POWER: tl.constexpr, HEADS: tl.constexpr, WIDTH: tl.constexpr, HP: tl.constexpr, DP: tl.constexpr,
                GROUPS: tl.constexpr):
    """Norms of `r` and of `(r / |r|) ** POWER` over the channels of all groups, each `(BLOCK,)`."""
    squares = tl.zeros_like(n).to(tl.float32)
    for group in range(GROUPS):
        _, positive = load_inputs(x, position, rescale, n, tokens, group, stride_h, stride_n, floor, HAS_POSITION,
                                  'focused', HEADS, WIDTH, HP, DP)
        squares += sum_of_token(positive * positive)
    norm = root(squares)
    squares = tl.zeros_like(n).to(tl.float32)
    for group in range(GROUPS):
        _, positive = load_inputs(x, position, rescale, n, tokens, group, stride_h, stride_n, floor, HAS_POSITION,
                                  'focused', HEADS, WIDTH, HP, DP)
        squares += powered_squares(positive, norm, POWER)
    return norm, root(squares)


@triton.jit
def features_of(positive, norm, powered_norm, FEATURE: tl.constexpr, POWER: tl.constexpr):
    """Features of an activation `r`: `|r| / |r ** POWER| r ** POWER` for the focused map, else `r`."""
    if FEATURE == 'focused':
        unit = positive / norm[None, :, None]
        return power_below(unit, POWER) * unit * (norm / powered_norm)[None, :, None]
    else:
        return positive


@triton.jit
def load_normed(x, position, rescale, norm, powered_norm, n, tokens, group, stride_h, stride_n, floor,
                HAS_POSITION: tl.constexpr, FEATURE: tl.constexpr, POWER: tl.constexpr, HEADS: tl.constexpr,
                WIDTH: tl.constexpr, HP: tl.constexpr, DP: tl.constexpr):
    """Load the input, the activation and the features of a tile whose norms are known."""
    value, positive = load_inputs(x, position, rescale, n, tokens, group, stride_h, stride_n, floor, HAS_POSITION,
                                  FEATURE, HEADS, WIDTH, HP, DP)
    return value, positive, features_of(positive, norm, powered_norm, FEATURE, POWER)


@triton.jit
def load_features(x, position, rescale, n, tokens, group, stride_h, stride_n, floor, HAS_POSITION: tl.constexpr,
                  FEATURE: tl.constexpr, POWER: tl.constexpr, HEADS: tl.constexpr, WIDTH: tl.constexpr,
                  HP: tl.constexpr, DP: tl.constexpr, GROUPS: tl.constexpr):
    """Load a tile; return the input, the activation, the features and both norms."""
    value, positive = load_inputs(x, position, rescale, n, tokens, group, stride_h, stride_n, floor, HAS_POSITION,
                                  FEATURE, HEADS, WIDTH, HP, DP)
    norm = tl.full(n.shape, 1., tl.float32)
    powered_norm = norm
    if FEATURE == 'focused':
        if GROUPS == 1:
            norm = root(sum_of_token(positive * positive))
            powered_norm = root(powered_squares(positive, norm, POWER))
        else:
            norm, powered_norm = token_norms(x, position, rescale, n, tokens, stride_h, stride_n, floor, HAS_POSITION,
                                             POWER, HEADS, WIDTH, HP, DP, GROUPS)
    return value, positive, features_of(positive, norm, powered_norm, FEATURE, POWER), norm, powered_norm


@triton.jit
def focused_backward(grad, positive, norm, powered_norm, along, POWER: tl.constexpr):
    """Gradient of `r` from that of its focused map; `along` is the component of `grad` along the unit feature."""
    unit = positive / norm[None, :, None]
    below = power_below(unit, POWER) / powered_norm[None, :, None]  # `unit * below` is the unit feature
    return along[None, :, None] * unit * (1 - POWER * below * below) + POWER * below * grad


@triton.jit
def features_backward(grad, value, positive, norm, powered_norm, along, rescale, group, FEATURE: tl.constexpr,
                      POWER: tl.constexpr, HEADS: tl.constexpr, WIDTH: tl.constexpr, HP: tl.constexpr,
                      DP: tl.constexpr):
    """Gradient of queries or keys from that of their features, and the sum over tokens of `grad * r`.

    That sum is the contribution to the gradient of the rescaling, times the rescaling. For the focused map, `along` is
    the component of `grad` along the unit feature over all heads, `(BLOCK,)`.
    """
    if FEATURE == 'focused':
        grad = focused_backward(grad, positive, norm, powered_norm, along, POWER)
    tile_rescale = tl.sum(grad * positive, axis=1)
    if FEATURE == 'elu':
        grad *= tl.where(value > 0, 1., positive)
    elif FEATURE == 'leaky_relu':
        grad *= tl.where(value > 0, 1., .01)
    else:
        grad = tl.where(value > 0, grad, 0.)
    if FEATURE == 'focused':
        grad *= load_channels(rescale, group, HEADS, WIDTH, HP, DP)
    return grad, tile_rescale

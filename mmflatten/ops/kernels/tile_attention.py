"""Linear attention of a tile of tokens from a known state, in Triton. The formulas are those of `closed_form`."""
# No `from __future__ import annotations`: Triton reads the annotations of its functions.
import triton
import triton.language as tl

from mmflatten.ops.kernels.tiles import load_tile, store_tile


@triton.jit
def product_of(a, b, PRECISION: tl.constexpr):
    """Matrix product of each head. Batched products use one warp per head, so a single head uses a plain product."""
    if a.shape[0] == 1:
        flat = tl.dot(tl.reshape(a, a.shape[1:]), tl.reshape(b, b.shape[1:]), input_precision=PRECISION)
        return tl.reshape(flat, (1, a.shape[1], b.shape[2]))
    else:
        return tl.dot(a, b, input_precision=PRECISION)


@triton.jit
def key_weights(weight, image, n, tokens, windows, HAS_WEIGHT: tl.constexpr):
    """Weights of the keys of window `image % windows`; 1 without weights, and 0 outside the map."""
    if HAS_WEIGHT:
        return tl.load(weight + (image % windows) * tokens + n, mask=n < tokens, other=0.).to(tl.float32)
    else:
        return tl.where(n < tokens, 1., 0.)


@triton.jit
def denominators(query, mean, bound, CLAMP: tl.constexpr):
    """Denominators `(HP, BLOCK)`, and 1 where they depend on the queries, 0 where they are clamped."""
    denominator = tl.sum(query * mean[:, None, :], axis=2)
    if CLAMP:
        return tl.maximum(denominator, bound), tl.where(denominator >= bound, 1., 0.)
    else:
        return denominator + bound, tl.full(denominator.shape, 1., tl.float32)


@triton.jit
def store_output(query, product, mean, local, y, n, tokens, group, bound, HAS_LOCAL: tl.constexpr, CLAMP: tl.constexpr,
                 HEADS: tl.constexpr, WIDTH: tl.constexpr, HP: tl.constexpr, DP: tl.constexpr,
                 PRECISION: tl.constexpr):
    """Store `q (k^T v / M) / (q . mean(k) + eps)` of a tile of queries, plus the local term."""
    denominator, _ = denominators(query, mean, bound, CLAMP)
    out = product_of(query, product, PRECISION) / denominator[:, :, None]
    if HAS_LOCAL:
        out += load_tile(local, n, tokens, group, WIDTH, HEADS * WIDTH, HEADS, WIDTH, HP, DP)
    store_tile(y, out, n, tokens, group, HEADS, WIDTH, HP, DP)


@triton.jit
def output_backward(grad, query, product, mean, bound, CLAMP: tl.constexpr, PRECISION: tl.constexpr):
    """Gradients of the features and denominators of a tile of queries, and its contribution to those of the state."""
    denominator, free = denominators(query, mean, bound, CLAMP)
    grad /= denominator[:, :, None]
    grad_product = product_of(tl.trans(query, 0, 2, 1), grad, PRECISION)
    grad = product_of(grad, tl.trans(product, 0, 2, 1), PRECISION)
    grad_denominator = -tl.sum(grad * query, axis=2) / denominator * free
    grad_mean = tl.sum(query * grad_denominator[:, :, None], axis=1)
    return grad + grad_denominator[:, :, None] * mean[:, None, :], grad_denominator, grad_product, grad_mean


@triton.jit
def state_backward(key, value, factor, grad_product, grad_mean, PRECISION: tl.constexpr):
    """Gradients of the features and values of a tile of keys; `factor` is their weight in the state, `(BLOCK,)`."""
    grad_value = product_of(key, grad_product, PRECISION) * factor[None, :, None]
    grad_key = product_of(value, tl.trans(grad_product, 0, 2, 1), PRECISION) + grad_mean[:, None, :]
    return grad_key * factor[None, :, None], grad_value

"""Explicit reference of the kernels: the formulas of `mmflatten.ops.linear.kernels.attention` with
what the kernels save.
"""

from __future__ import annotations

import torch
from torch import Tensor

from mmflatten.ops.linear import linear_attention
from mmflatten.ops.linear.kernels.attention import _backward, _forward
from mmflatten.ops.linear.kernels.options import ACTIVATIONS, EPS, Options
from mmflatten.ops.precision import no_autocast, upcast


def register() -> None:
    """Let the operators run on a CPU, with these formulas in place of the kernels."""
    _forward.register_kernel(
        'cpu', lambda *arguments: forward(*arguments[:8], Options(*arguments[8:]))
    )
    _backward.register_kernel(
        'cpu', lambda *arguments: backward(*arguments[:11], Options(*arguments[11:]))
    )


def forward(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    position: Tensor | None,
    rescale: Tensor | None,
    weight: Tensor | None,
    temperature: Tensor | None,
    local: Tensor | None,
    options: Options,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return the result `(B, N, h, d)` and what the backward pass needs.

    The state `(B, h, d + 1, d)` is `S`, with `kbar` in its last row. For the focused map, the norms
    of queries and keys `(B, N, 2)` and `(B, M, 2)` are `1 / |r|` and `|r| / |u^p|`; for other maps
    they are empty.
    """
    dtype = v.dtype
    with no_autocast(v):
        q, k, v = upcast(q, k, v)
        k = k if position is None else k + position
        (q, _, norms_q), (k, _, norms_k) = (_features(x, rescale, options) for x in (q, k))
        k = k if weight is None else k * _by_image(weight, k)
        state = _state(k, v)
        y = linear_attention(
            q,
            k,
            v,
            eps=EPS,
            min_denominator=options.min_denominator or None,
            scale=1.0 if temperature is None else temperature[:, None, None],
            local_BhNe=None if local is None else upcast(local)[0],
        )
        return y.transpose(1, 2).to(dtype).contiguous(), state, norms_q, norms_k


def backward(
    grad: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    position: Tensor | None,
    rescale: Tensor | None,
    weight: Tensor | None,
    temperature: Tensor | None,
    state: Tensor,
    norms_q: Tensor,
    norms_k: Tensor,
    options: Options,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Return gradients of queries, keys and values `(B, N, h, d)`, rescaling `(h, d)` and
    temperatures `(h,)`.
    """
    types, M = [x.dtype for x in (q, k, v)], k.shape[2]
    with no_autocast(v):
        q, k, v, grad = upcast(q, k, v, grad.transpose(1, 2))
        k = k if position is None else k + position
        (fq, rq, _), (fk, rk, _) = (
            _features(x, rescale, options, norms) for x, norms in ((q, norms_q), (k, norms_k))
        )
        weights: float | Tensor = 1.0 if weight is None else _by_image(weight, k)
        scale = state.new_ones(q.shape[1]) if temperature is None else temperature
        product, mean = state[..., :-1, :], state[..., -1:, :]
        z, free = (fq * mean).sum(-1, keepdim=True), torch.tensor(True, device=q.device)
        if options.min_denominator:
            bound = options.min_denominator / M
            z, free = z.clamp(min=bound), z >= bound
        else:
            z = z + EPS
        along = grad @ product.transpose(-2, -1) * scale[:, None, None] / z
        grad_z = -(fq * along).sum(-1, keepdim=True) / z * free
        grad_product, grad_mean = (
            fq.transpose(-2, -1) @ (grad / z),
            (grad_z * fq).sum(-2, keepdim=True),
        )
        grad_temperature = (
            state.new_empty(0) if temperature is None else (grad_product * product).sum((0, 2, 3))
        )
        grad_product = grad_product * scale[:, None, None]
        grad_v = fk @ grad_product * weights / M
        grad_q, rescale_q = _features_backward(
            along + grad_z * mean, q, fq, rq, norms_q, rescale, options
        )
        along = (v @ grad_product.transpose(-2, -1) + grad_mean) * weights / M
        grad_k, rescale_k = _features_backward(along, k, fk, rk, norms_k, rescale, options)
    grad_q, grad_k, grad_v = (
        x.transpose(1, 2).to(dtype).contiguous()
        for x, dtype in zip((grad_q, grad_k, grad_v), types)
    )
    return grad_q, grad_k, grad_v, rescale_q + rescale_k, grad_temperature


def _state(k: Tensor, v: Tensor) -> Tensor:
    return torch.cat((k.transpose(-2, -1) @ v / k.shape[2], k.mean(-2, keepdim=True)), dim=-2)


def _by_image(weight: Tensor, k: Tensor) -> Tensor:
    """Repeat the weights `(W, M)` of `W` windows along the batch, `(B, 1, M, 1)`."""
    return weight.repeat(k.shape[0] // weight.shape[0], 1)[:, None, :, None]


def _norm(x: Tensor) -> Tensor:
    """Norm over the channels of all heads, `(B, N)`."""
    return x.square().sum((1, 3)).sqrt()


def _features(
    x: Tensor, rescale: Tensor | None, options: Options, norms: Tensor | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the features `f`, the activation `r` and the norms, which are computed unless they are
    known.
    """
    r = ACTIVATIONS[options.feature_map](x, options.floor)
    if options.feature_map != 'focused' or rescale is None:
        return r, r, r.new_empty(0)
    r = r * rescale[:, None]
    if norms is None:
        norm = _norm(r)
        norms = torch.stack(
            (1 / norm, norm / _norm((r / norm[:, None, :, None]) ** options.power)), dim=-1
        )
    inverse, scale = norms[:, None, :, :, None].unbind(3)
    return scale * (r * inverse) ** options.power, r, norms


def _features_backward(
    grad: Tensor,
    x: Tensor,
    f: Tensor,
    r: Tensor,
    norms: Tensor,
    rescale: Tensor | None,
    options: Options,
) -> tuple[Tensor, Tensor]:
    """Return the gradients of `x` and of the rescaling, which is empty for feature maps without
    one.
    """
    if options.feature_map == 'elu':
        return grad * torch.where(x > 0, 1.0, r), grad.new_empty(0)
    if options.feature_map == 'leaky_relu':
        return torch.where(x > 0, grad, 0.01 * grad), grad.new_empty(0)
    if options.feature_map == 'relu' or rescale is None:
        return torch.where(x > 0, grad, 0.0), grad.new_empty(0)
    inverse, scale = norms[:, None, :, :, None].unbind(3)
    u, e, p = r * inverse, f * inverse, options.power
    a = (e * grad).sum((1, 3), keepdim=True)
    grad = a * u + p * u ** (p - 1) * (grad - a * e) * scale * inverse
    grad_x = torch.where(x > 0, grad * rescale[:, None], 0.0)
    return grad_x, (grad * r).sum((0, 2)) / rescale

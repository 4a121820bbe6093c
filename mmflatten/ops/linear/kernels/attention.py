"""Linear attention with its feature map: fused kernels on a GPU, registered as
`mmflatten::linear_attention`.

Per head, with features `f` of queries and keys, weights `w` of the keys and the temperature `s`,

    S = sum_m w_m f(k_m) v_m^T / M,   kbar = sum_m w_m f(k_m) / M,   y_n = s f(q_n) S / (f(q_n) . kbar + eps) + local_n

and, for the focused map of `r = (relu(x) + floor) c` over the channels of all heads,
`f = |r| u^p / |u^p|` of the unit vector `u = r / |r|`. With `g` the gradient of `y`, `z` the
denominator, `e = f / |f|` and `a = e . df` over all heads:

    df(q) = g (s S)^T / z + dz kbar,    dz = -f(q) . (g (s S)^T) / z^2,    dS = s f(q)^T (g / z),    dkbar = dz f(q)
    df(k) = w (v dS^T + dkbar) / M,     dv = w f(k) dS / M
    dr = a u + p u^(p - 1) (df - a e) / |u^p|,    dx = c dr [x > 0],    dc = sum dr r / c
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from mmflatten.ops.heads import split_heads
from mmflatten.ops.linear.feature_maps import focused_map
from mmflatten.ops.linear.kernels.options import ACTIVATIONS, EPS, FOCUSED, Options
from mmflatten.ops.linear.kernels.pick import pick_kernel
from mmflatten.ops.linear.operator import linear_attention
from mmflatten.ops.precision import no_autocast, upcast
from mmflatten.ops.sizes import is_exporting


def fused_linear_attention(
    q_BhNd: Tensor,
    k_BhMd: Tensor,
    v_BhMd: Tensor,
    *,
    feature_map: str = 'relu',
    rescale_hd: Tensor | None = None,
    power: float = 3,
    floor: float = EPS,
    position_hMd: Tensor | None = None,
    weight_WM: Tensor | None = None,
    min_denominator: float | None = None,
    temperature_h: Tensor | None = None,
    local_BhNd: Tensor | None = None,
    per_head: bool = False,
) -> Tensor:
    """Linear attention with feature map, positional encoding of the keys and local term.

    Half-precision inputs are computed in float32, also under autocast. On a GPU, fused kernels
    compute it where `pick_kernel` holds. They read queries, keys and values in place, as views of a
    projection's output with contiguous channels, and round the factors of matrix products to TF32.
    Their backward pass saves only the inputs, `(d + 1) d` numbers per head and, for the focused
    map, four numbers per token; there is no second derivative. Cost: as for `linear_attention`;
    each kernel reads and writes the tokens once.

    Args:
        q_BhNd: queries `(B, h, N, d)`, without a feature map.
        k_BhMd: keys `(B, h, M, d)`.
        v_BhMd: values `(B, h, M, d)`.
        feature_map: 'relu', 'elu' (ELU + 1), 'leaky_relu', or 'focused' with norms over the
            channels of all heads.
        rescale_hd: factor of `relu(x) + floor` before the focused map; None for the other maps.
        power: power of the focused map.
        floor: added to `relu(x)`.
        position_hMd: added to the keys of all images.
        weight_WM: weight of every key in `W` windows, which repeat along the batch; it has no
            gradient.
        min_denominator, temperature_h: as `min_denominator` and `scale` of `linear_attention`.
        local_BhNd: a local term, added to the result.
        per_head: take the norms of the focused map over each head, which the kernels do not.

    Returns:
        `(B, h, N, d)` in the type of `v`.

    Raises:
        ValueError: a shape is wrong, the feature map is unknown, or it does not accept `rescale_hd`
            or `min_denominator`, or requires a rescaling.
    """
    _check_map(feature_map, rescale_hd, min_denominator)
    if not is_exporting():  # which would fix symbolic sizes
        _check_shapes(
            q_BhNd,
            k_BhMd,
            v_BhMd,
            weight_WM,
            position_hMd=position_hMd,
            rescale_hd=rescale_hd,
            temperature_h=temperature_h,
            local_BhNd=local_BhNd,
        )
    if not per_head and pick_kernel(
        q_BhNd, k_BhMd, v_BhMd, width=q_BhNd.shape[-1], feature_map=feature_map, power=power
    ):
        y_BNhd, *_ = _forward(
            q_BhNd,
            k_BhMd,
            v_BhMd,
            position_hMd,
            rescale_hd,
            weight_WM,
            temperature_h,
            local_BhNd,
            feature_map,
            int(power),
            floor,
            min_denominator or 0.0,
        )
        return y_BNhd.transpose(1, 2)
    with no_autocast(v_BhMd):
        q_BhNd, k_BhMd = upcast(q_BhNd, k_BhMd)
        k_BhMd = k_BhMd if position_hMd is None else k_BhMd + position_hMd
        q_BhNd, k_BhMd = (
            _features(x, feature_map, rescale_hd, power, floor, per_head) for x in (q_BhNd, k_BhMd)
        )
        if weight_WM is not None:
            k_BhMd = (
                k_BhMd
                * weight_WM.repeat(k_BhMd.shape[0] // weight_WM.shape[0], 1)[:, None, :, None]
            )
        return linear_attention(
            q_BhNd,
            k_BhMd,
            v_BhMd,
            eps=EPS,
            min_denominator=min_denominator,
            scale=1.0 if temperature_h is None else temperature_h[:, None, None],
            local_BhNe=local_BhNd,
        )


def _features(
    x_BhNd: Tensor,
    feature_map: str,
    rescale_hd: Tensor | None,
    power: float,
    floor: float,
    per_head: bool,
) -> Tensor:
    y_BhNd = ACTIVATIONS[feature_map](x_BhNd, floor)
    if rescale_hd is None:
        return y_BhNd
    if per_head:
        return focused_map(y_BhNd * rescale_hd[:, None], power)
    y_BNC = y_BhNd.transpose(1, 2).flatten(2) * rescale_hd.flatten()
    return split_heads(focused_map(y_BNC, power), rescale_hd.shape[0])


def _check_map(feature_map: str, rescale_hd: Tensor | None, min_denominator: float | None) -> None:
    if feature_map not in ACTIVATIONS:
        raise ValueError(
            f'feature_map: expected one of {sorted(ACTIVATIONS)}, got {feature_map!r}.'
        )
    if (feature_map == FOCUSED) != (rescale_hd is not None):
        found = None if rescale_hd is None else tuple(rescale_hd.shape)
        raise ValueError(
            "rescale_hd: expected shape (h, d) for feature_map 'focused', and None for the others, "
            f'got {found} for {feature_map!r}.'
        )
    if feature_map == FOCUSED and min_denominator:
        raise ValueError(
            f"min_denominator: expected None for feature_map 'focused', got {min_denominator}."
        )


def _check_shapes(
    q_BhNd: Tensor,
    k_BhMd: Tensor,
    v_BhMd: Tensor,
    weight_WM: Tensor | None,
    **others: Tensor | None,
) -> None:
    (B, h, N, d), M = q_BhNd.shape, k_BhMd.shape[2]
    shapes = dict(
        k_BhMd=(B, h, M, d),
        v_BhMd=(B, h, M, d),
        position_hMd=(h, M, d),
        rescale_hd=(h, d),
        temperature_h=(h,),
        local_BhNd=(B, h, N, d),
    )
    for name, x in dict(others, k_BhMd=k_BhMd, v_BhMd=v_BhMd).items():
        if x is not None and x.shape != shapes[name]:
            raise ValueError(
                f'{name}: expected the shape {shapes[name]} for queries {tuple(q_BhNd.shape)} and'
                f' {M} keys, got {tuple(x.shape)}.'
            )
    if weight_WM is not None and (
        weight_WM.dim() != 2 or weight_WM.shape[1] != M or B % weight_WM.shape[0]
    ):
        raise ValueError(
            f'weight_WM: expected the shape (W, {M}) with a W that divides the batch size {B}, got '
            f'{tuple(weight_WM.shape)}.'
        )


@torch.library.custom_op('mmflatten::linear_attention', mutates_args=(), device_types='cuda')
def _forward(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    position: Tensor | None,
    rescale: Tensor | None,
    weight: Tensor | None,
    temperature: Tensor | None,
    local: Tensor | None,
    feature_map: str,
    power: int,
    floor: float,
    min_denominator: float,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    from mmflatten.ops.linear.kernels import launch_attention  # requires Triton

    options = Options(feature_map, power, floor, min_denominator)
    with torch.cuda.device_of(q):  # which Triton does not select
        return launch_attention.forward(
            q, k, v, position, rescale, weight, temperature, local, options
        )


@torch.library.custom_op(
    'mmflatten::linear_attention_backward', mutates_args=(), device_types='cuda'
)
def _backward(
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
    feature_map: str,
    power: int,
    floor: float,
    min_denominator: float,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    from mmflatten.ops.linear.kernels import launch_attention

    options = Options(feature_map, power, floor, min_denominator)
    with torch.cuda.device_of(q):
        return launch_attention.backward(
            grad, q, k, v, position, rescale, weight, temperature, state, norms_q, norms_k, options
        )


def _full(x: Tensor) -> torch.dtype:
    return torch.float64 if x.dtype == torch.float64 else torch.float32


@_forward.register_fake
def _forward_shapes(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    position: Tensor | None,
    rescale: Tensor | None,
    weight: Tensor | None,
    temperature: Tensor | None,
    local: Tensor | None,
    feature_map: str,
    *options: object,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    B, h, N, d = q.shape
    norms_q, norms_k = (
        v.new_empty((B, x.shape[2], 2) if feature_map == 'focused' else (0,), dtype=_full(v))
        for x in (q, k)
    )
    return v.new_empty(B, N, h, d), v.new_empty(B, h, d + 1, d, dtype=_full(v)), norms_q, norms_k


@_backward.register_fake
def _backward_shapes(
    grad: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    position: Tensor | None,
    rescale: Tensor | None,
    weight: Tensor | None,
    temperature: Tensor | None,
    *others: object,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    grad_q, grad_k, grad_v = (
        x.new_empty(x.shape[0], x.shape[2], x.shape[1], x.shape[3]) for x in (q, k, v)
    )
    grad_rescale, grad_temperature = (
        q.new_empty(0 if x is None else x.shape, dtype=_full(q)) for x in (rescale, temperature)
    )
    return grad_q, grad_k, grad_v, grad_rescale, grad_temperature


def _save(ctx: Any, inputs: tuple, output: tuple[Tensor, ...]) -> None:
    q, k, v, position, rescale, weight, temperature, local, *options = inputs
    ctx.save_for_backward(q, k, v, position, rescale, weight, temperature, *output[1:])
    ctx.mark_non_differentiable(*output[1:])
    ctx.set_materialize_grads(False)  # which would fill a tensor with zeros for each of them
    ctx.options = options
    ctx.local_type = None if local is None else local.dtype


def _gradients(ctx: Any, grad: Tensor | None, *grad_saved: None) -> tuple:
    if grad is None:  # the result was not used
        return (None,) * (8 + len(ctx.options))
    q, k, v, position, rescale, weight, temperature, *saved = ctx.saved_tensors
    grad_q, grad_k, grad_v, grad_rescale, grad_temperature = _backward(
        grad, q, k, v, position, rescale, weight, temperature, *saved, *ctx.options
    )
    grad_q, grad_k, grad_v = (x.transpose(1, 2) for x in (grad_q, grad_k, grad_v))
    return (
        grad_q,
        grad_k,
        grad_v,
        None if position is None else grad_k.sum(0, dtype=_full(grad_k)).to(position.dtype),
        None if rescale is None else grad_rescale.to(rescale.dtype),
        None,
        None if temperature is None else grad_temperature.to(temperature.dtype),
        None if ctx.local_type is None else grad.transpose(1, 2).to(ctx.local_type),
        *[None] * len(ctx.options),
    )


_forward.register_autograd(_gradients, setup_context=_save)

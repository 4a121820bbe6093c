"""Linear attention with its feature map: fused kernels on a GPU, registered as
`mmflatten::linear_attention`.

Per head, with features `f` of queries and keys, weights `w` of the keys and the temperature `s`,

    S = sum_m w_m f(k_m) v_m^T / M,    kbar = sum_m w_m f(k_m) / M
    y_n = s f(q_n) S / (f(q_n) . kbar + eps) + local_n

and, for the focused map of `r = (relu(x) + floor) c` over the channels of all heads,
`f = |r| u^p / |u^p|` of the unit vector `u = r / |r|`. With `g` the gradient of `y`, `z` the
denominator, `e = f / |f|` and `a = e . df` over all heads:

    df(q) = g (s S)^T / z + dz kbar,    dz = -f(q) . (g (s S)^T) / z^2
    dS = s f(q)^T (g / z),    dkbar = dz f(q)
    df(k) = w (v dS^T + dkbar) / M,     dv = w f(k) dS / M
    dr = a u + p u^(p - 1) (df - a e) / |u^p|,    dx = c dr [x > 0],    dc = sum dr r / c
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from mmflatten.ops.heads import merge_heads, split_heads
from mmflatten.ops.linear.feature_maps import focused_map
from mmflatten.ops.linear.kernels.options import ACTIVATIONS, EPS, FOCUSED, Options
from mmflatten.ops.linear.kernels.pick import pick_kernel
from mmflatten.ops.linear.operator import linear_attention
from mmflatten.ops.precision import no_autocast, upcast
from mmflatten.ops.sizes import is_exporting


def fused_linear_attention(
    q_BNC: Tensor,
    k_BMC: Tensor,
    v_BMC: Tensor,
    num_heads: int,
    *,
    feature_map: str = 'relu',
    rescale_C: Tensor | None = None,
    power: float = 3,
    floor: float = EPS,
    position_MC: Tensor | None = None,
    weight_WM: Tensor | None = None,
    min_denominator: float | None = None,
    temperature_h: Tensor | None = None,
    local_BNC: Tensor | None = None,
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
        q_BNC: queries of all heads, `C = h d`, without a feature map.
        k_BMC: keys.
        v_BMC: values.
        num_heads: number of heads `h`.
        feature_map: 'relu', 'elu' (ELU + 1), 'leaky_relu', or 'focused' with norms over the
            channels of all heads.
        rescale_C: factor of `relu(x) + floor` before the focused map; None for the other maps.
        power: power of the focused map.
        floor: added to `relu(x)`.
        position_MC: added to the keys of all images.
        weight_WM: weight of every key in `W` windows, which repeat along the batch; it has no
            gradient.
        min_denominator, temperature_h: as `min_denominator` and `scale` of `linear_attention`.
        local_BNC: a local term, added to the result.
        per_head: compute the norms of the focused map per head, which the kernels do not support.

    Returns:
        `(B, N, C)` in the type of `v`.

    Raises:
        ValueError: a shape is wrong, the feature map is unknown, or it does not accept `rescale_C`
            or `min_denominator`, or requires a rescaling.
    """
    _check_map(feature_map, rescale_C, min_denominator)
    if not is_exporting():  # which would fix symbolic sizes
        _check_shapes(
            q_BNC,
            num_heads,
            weight_WM,
            k_BMC=k_BMC,
            v_BMC=v_BMC,
            position_MC=position_MC,
            rescale_C=rescale_C,
            temperature_h=temperature_h,
            local_BNC=local_BNC,
        )
    width = q_BNC.shape[-1] // num_heads
    if not per_head and pick_kernel(
        q_BNC, k_BMC, v_BMC, width=width, feature_map=feature_map, power=power
    ):
        position_hMd = None
        if position_MC is not None:
            position_hMd = position_MC.unflatten(-1, (num_heads, width)).transpose(0, 1)
        y_BNhd, *_ = _forward(
            split_heads(q_BNC, num_heads),
            split_heads(k_BMC, num_heads),
            split_heads(v_BMC, num_heads),
            position_hMd,
            None if rescale_C is None else rescale_C.view(num_heads, width),
            weight_WM,
            temperature_h,
            None if local_BNC is None else split_heads(local_BNC, num_heads),
            feature_map,
            int(power),
            floor,
            min_denominator or 0.0,
        )
        return y_BNhd.flatten(2)

    with no_autocast(v_BMC):
        q_BNC, k_BMC = upcast(q_BNC, k_BMC)
        if position_MC is not None:
            k_BMC = k_BMC + position_MC
        q_BNC, k_BMC = (ACTIVATIONS[feature_map](x, floor) for x in (q_BNC, k_BMC))
        if rescale_C is not None:
            norm_groups = num_heads if per_head else 1
            q_BNC = _focused(q_BNC * rescale_C, power, norm_groups)
            k_BMC = _focused(k_BMC * rescale_C, power, norm_groups)
        if weight_WM is not None:
            k_BMC = k_BMC * weight_WM.repeat(k_BMC.shape[0] // weight_WM.shape[0], 1)[..., None]
        # The sums over the keys are computed per head.
        y_BhNd = linear_attention(
            split_heads(q_BNC, num_heads),
            split_heads(k_BMC, num_heads),
            split_heads(v_BMC, num_heads),
            eps=EPS,
            min_denominator=min_denominator,
            scale=1.0 if temperature_h is None else temperature_h[:, None, None],
            local_BhNe=None if local_BNC is None else split_heads(local_BNC, num_heads),
        )
        return merge_heads(y_BhNd)


def _focused(x_BNC: Tensor, power: float, norm_groups: int) -> Tensor:
    """Focused map with norms over groups of channels."""
    if norm_groups == 1:
        return focused_map(x_BNC, power)
    return focused_map(x_BNC.unflatten(-1, (norm_groups, -1)), power).flatten(2)


def _check_map(feature_map: str, rescale_C: Tensor | None, min_denominator: float | None) -> None:
    if feature_map not in ACTIVATIONS:
        raise ValueError(
            f'feature_map: expected one of {sorted(ACTIVATIONS)}, got {feature_map!r}.'
        )
    if (feature_map == FOCUSED) != (rescale_C is not None):
        found = None if rescale_C is None else tuple(rescale_C.shape)
        raise ValueError(
            "rescale_C: expected shape (C,) for feature_map 'focused', and None for the others, "
            f'got {found} for {feature_map!r}.'
        )
    if feature_map == FOCUSED and min_denominator:
        raise ValueError(
            f"min_denominator: expected None for feature_map 'focused', got {min_denominator}."
        )


def _check_shapes(
    q_BNC: Tensor, num_heads: int, weight_WM: Tensor | None, **others: Tensor | None
) -> None:
    """Raise ValueError unless all shapes fit those of the queries and keys."""
    B, N, C = q_BNC.shape
    if num_heads < 1 or C % num_heads:
        raise ValueError(f'num_heads: expected a divisor of {C} channels, got {num_heads}.')
    k_BMC = others['k_BMC']
    assert k_BMC is not None
    M = k_BMC.shape[1]
    shapes = dict(
        k_BMC=(B, M, C),
        v_BMC=(B, M, C),
        position_MC=(M, C),
        rescale_C=(C,),
        temperature_h=(num_heads,),
        local_BNC=(B, N, C),
    )
    for name, x in others.items():
        if x is not None and x.shape != shapes[name]:
            raise ValueError(
                f'{name}: expected the shape {shapes[name]} for queries {tuple(q_BNC.shape)} and'
                f' {M} keys, got {tuple(x.shape)}.'
            )
    if weight_WM is None:
        return
    if weight_WM.dim() != 2 or weight_WM.shape[1] != M or B % weight_WM.shape[0]:
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
    y = v.new_empty(B, N, h, d)
    state = v.new_empty(B, h, d + 1, d, dtype=_full(v))
    norms_q = (B, N, 2) if feature_map == FOCUSED else (0,)
    norms_k = (B, k.shape[2], 2) if feature_map == FOCUSED else (0,)
    return y, state, v.new_empty(norms_q, dtype=_full(v)), v.new_empty(norms_k, dtype=_full(v))


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

"""Forward passes of mixers with replaced values.

Queries and keys come from the input, so the output is linear in the values. Its derivative with
respect to the values is the attention matrix of any mixer.
"""

import math
from contextlib import ExitStack

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mmflatten.models.attention import (
    CrossShapedAttention,
    FocalAttention,
    MapAttention,
    SoftmaxAttention,
    Windowed,
)
from mmflatten.models.attention.base import TokenMixer
from mmflatten.models.attention.linear import LinearAngularAttention
from mmflatten.models.attention.maps import Maps, fill_masked, values_at_queries
from mmflatten.models.layers import map_to_tokens
from mmflatten.ops import kernel_product, merge_heads, split_heads

Size = tuple[int, int]
ALL = slice(None)


def mix(
    layer: nn.Module,
    x: Tensor,
    hw_shape: Size,
    v_BMC: Tensor,
    mask: Tensor | None = None,
    *,
    queries: Tensor | slice = ALL,
    local: bool = False,
) -> Tensor:
    """Compute the output of a layer before its last projection, `(B, Q, C)`, for given values.

    Args:
        layer, x, hw_shape, mask: an attention, and arguments of its `forward`.
        v_BMC: values, one row per token, or per token of the reduced key map.
        queries: indices of the tokens to return. Plain softmax then forms only their rows of its
            matrix.
        local: True to include depthwise convolutions of the values.
    """
    if isinstance(layer, MapAttention):
        with torch.no_grad():
            q, k = (
                map_to_tokens(projection(x)) for projection in (layer.coefficients, layer.basis)
            )
        q, k, v = (split_heads(part, layer.num_heads) for part in (q[:, queries], k, v_BMC))
        return merge_heads(layer.operators[layer.normalization](q, k, v))
    if isinstance(layer, Windowed):
        return _in_windows(layer, x, hw_shape, v_BMC, local)[:, queries]
    if isinstance(layer, CrossShapedAttention):
        with torch.no_grad():
            parts = layer.parts(x).split(layer.channels, -1)
        return torch.cat(
            [
                mix(branch, part, hw_shape, v, queries=queries, local=local)
                for branch, part, v in zip(layer.branches, parts, v_BMC.split(layer.channels, -1))
            ],
            dim=-1,
        )
    if isinstance(layer, FocalAttention):
        with torch.no_grad():
            q, k, _, maps = layer.projections(x, hw_shape)
        # with the constant biases of the pooling
        y_BNC = layer.attend(q, k, layer.listed(v_BMC, hw_shape), maps)
        return y_BNC[:, queries]
    return _tokens(layer, x, hw_shape, v_BMC, mask, queries, local)


def _tokens(
    mixer: TokenMixer,
    x: Tensor,
    hw_shape: Size,
    v_BMC: Tensor,
    mask: Tensor | None,
    queries: Tensor | slice,
    local: bool,
) -> Tensor:
    with torch.no_grad():
        q, k, input_values, maps = mixer.projections(x, hw_shape, mask)
    local_term = local and mixer.lepe is not None
    by_row = (
        type(mixer) is SoftmaxAttention and mixer.relative_position_bias is None and not local_term
    )
    parts = (q[:, queries] if by_row else q, k, v_BMC, input_values)
    if mixer.splits_heads:
        parts = tuple(split_heads(part, mixer.num_heads) for part in parts)
    with ExitStack() as hooks:
        for term in () if local else mixer.local_terms().values():
            hooks.enter_context(
                term.register_forward_hook(lambda module, args, out: torch.zeros_like(out))
            )
        if isinstance(mixer, LinearAngularAttention):
            y = _angular(mixer, *parts, maps)
        else:
            y = mixer.attend(*parts[:3], maps)
    y_BNC = merge_heads(y) if mixer.splits_heads else y
    if local_term:
        y_BNC = y_BNC + mixer.lepe(v_BMC, maps)
    return y_BNC if by_row else y_BNC[:, queries]


def _angular(
    mixer: LinearAngularAttention, q: Tensor, k: Tensor, v: Tensor, input_values: Tensor, maps: Maps
) -> Tensor:
    """Divide by the length of the output for the values of the input, so that the result is linear
    in `v`.
    """
    q, k = F.normalize(q, dim=-1), F.normalize(fill_masked(k, maps.mask, 0.0), dim=-1)
    v_at_queries, input_at_queries = (
        split_heads(values_at_queries(merge_heads(values), maps), mixer.num_heads)
        for values in (v, input_values)
    )
    y = v_at_queries / 2 + kernel_product(q, k, v, 1 / math.pi)
    input_y = input_at_queries / 2 + kernel_product(q, k, input_values, 1 / math.pi)
    return y / input_y.norm(dim=-1, keepdim=True).clamp(min=1e-12) + mixer.dwc(v_at_queries)


class _ReplacedValues(nn.Module):
    """Mixer for use in windows. The last part of its input `(B, N, P, C)` is the values."""

    def __init__(self, mixer: nn.Module, local: bool) -> None:
        super().__init__()
        self.mixer, self.local = mixer, local
        self.has_logits = getattr(mixer, 'has_logits', False)

    def forward(self, parts: Tensor, hw_shape: Size, mask: Tensor | None = None) -> Tensor:
        x = parts[:, :, 0] if parts.shape[2] == 2 else parts[:, :, :-1]
        return mix(self.mixer, x, hw_shape, parts[:, :, -1], mask, local=self.local)


def _in_windows(layer: Windowed, x: Tensor, hw_shape: Size, v_BNC: Tensor, local: bool) -> Tensor:
    if getattr(layer.mixer, 'reduction', None) is not None:
        raise ValueError(
            'sr_ratio: must be 1 in windows, because the reduced keys of windows have no common'
            f' map, got {layer.mixer.reduction.sr_ratio}.'
        )
    parts = torch.cat((x.flatten(2).unflatten(2, (-1, v_BNC.shape[2])), v_BNC[:, :, None]), dim=2)
    mixer = _ReplacedValues(layer.mixer, local)
    return Windowed(mixer, layer.window_size, shift=layer.shift, mask_padding=layer.mask_padding)(
        parts, hw_shape
    )

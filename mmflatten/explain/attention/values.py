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
        return _in_maps(layer, x, v_BMC, queries)
    if isinstance(layer, Windowed):
        return _in_windows(layer, x, hw_shape, v_BMC=v_BMC, local=local)[:, queries]
    if isinstance(layer, CrossShapedAttention):
        return _in_stripes(layer, x, hw_shape, v_BMC=v_BMC, queries=queries, local=local)
    if isinstance(layer, FocalAttention):
        with torch.no_grad():
            q, k, _, maps = layer.projections(x, hw_shape)
        # The constant biases of the pooling are part of the output.
        y_BNC = layer.attend(q, k, layer.listed(v_BMC, hw_shape), maps)
        return y_BNC[:, queries]
    return _in_tokens(layer, x, hw_shape, v_BMC=v_BMC, mask=mask, queries=queries, local=local)


def _in_maps(layer: MapAttention, x: Tensor, v_BMC: Tensor, queries: Tensor | slice) -> Tensor:
    with torch.no_grad():
        q_BNC = map_to_tokens(layer.coefficients(x))
        k_BMC = map_to_tokens(layer.basis(x))
    parts = (q_BNC[:, queries], k_BMC, v_BMC)
    q, k, v = (split_heads(part, layer.num_heads) for part in parts)
    return merge_heads(layer.operators[layer.normalization](q, k, v))


def _in_windows(
    layer: Windowed, x: Tensor, hw_shape: Size, *, v_BMC: Tensor, local: bool
) -> Tensor:
    """Partition the values with the input, as one more part of each token."""
    if getattr(layer.mixer, 'reduction', None) is not None:
        raise ValueError(
            'sr_ratio: must be 1 in windows, because the reduced keys of windows have no common'
            f' map, got {layer.mixer.reduction.sr_ratio}.'
        )
    input_parts = x.flatten(2).unflatten(2, (-1, v_BMC.shape[2]))
    parts_BNPC = torch.cat((input_parts, v_BMC[:, :, None]), dim=2)
    windowed = Windowed(
        _ReplacedValues(layer.mixer, local),
        layer.window_size,
        shift=layer.shift,
        mask_padding=layer.mask_padding,
    )
    return windowed(parts_BNPC, hw_shape)


class _ReplacedValues(nn.Module):
    """Mixer for use in windows. The last part of its input `(B, N, P, C)` is the values."""

    def __init__(self, mixer: nn.Module, local: bool) -> None:
        super().__init__()
        self.mixer, self.local = mixer, local
        self.has_logits = getattr(mixer, 'has_logits', False)

    def forward(self, parts: Tensor, hw_shape: Size, mask: Tensor | None = None) -> Tensor:
        x = parts[:, :, 0] if parts.shape[2] == 2 else parts[:, :, :-1]
        v = parts[:, :, -1]
        return mix(self.mixer, x, hw_shape, v_BMC=v, mask=mask, local=self.local)


def _in_stripes(
    layer: CrossShapedAttention,
    x: Tensor,
    hw_shape: Size,
    *,
    v_BMC: Tensor,
    queries: Tensor | slice,
    local: bool,
) -> Tensor:
    """Compute the branches, each of which mixes its own channels."""
    with torch.no_grad():
        inputs = layer.parts(x).split(layer.channels, -1)
    values = v_BMC.split(layer.channels, -1)
    outputs = []
    for branch, part, v in zip(layer.branches, inputs, values):
        outputs.append(mix(branch, part, hw_shape, v_BMC=v, queries=queries, local=local))
    return torch.cat(outputs, dim=-1)


def _in_tokens(
    mixer: TokenMixer,
    x: Tensor,
    hw_shape: Size,
    *,
    v_BMC: Tensor,
    mask: Tensor | None,
    queries: Tensor | slice,
    local: bool,
) -> Tensor:
    with torch.no_grad():
        q, k, input_values, maps = mixer.projections(x, hw_shape, mask)
    has_lepe = local and mixer.lepe is not None
    # Other attentions need all queries: for their bias, their convolutions or their normalisation.
    is_plain = type(mixer) is SoftmaxAttention and mixer.relative_position_bias is None
    by_row = is_plain and not has_lepe
    if by_row:
        q = q[:, queries]
    v = v_BMC
    if mixer.splits_heads:
        q, k, v, input_values = (
            split_heads(part, mixer.num_heads) for part in (q, k, v, input_values)
        )
    with ExitStack() as hooks:
        if not local:
            for term in mixer.local_terms().values():
                hooks.enter_context(term.register_forward_hook(_zeros))
        if isinstance(mixer, LinearAngularAttention):
            y = _angular(mixer, q, k, v=v, input_values=input_values, maps=maps)
        else:
            y = mixer.attend(q, k, v, maps)
    y_BNC = merge_heads(y) if mixer.splits_heads else y
    if has_lepe:
        y_BNC = y_BNC + mixer.lepe(v_BMC, maps)
    return y_BNC if by_row else y_BNC[:, queries]


def _zeros(module: nn.Module, args: tuple, output: Tensor) -> Tensor:
    """Forward hook that removes a local term from the sum."""
    return torch.zeros_like(output)


def _angular(
    mixer: LinearAngularAttention,
    q: Tensor,
    k: Tensor,
    *,
    v: Tensor,
    input_values: Tensor,
    maps: Maps,
) -> Tensor:
    """Compute linear angular attention, normalised by the output for the values of the input.

    The attention divides by the length of its own output, which is not linear in `v`.
    """
    q = F.normalize(q, dim=-1)
    k = F.normalize(fill_masked(k, maps.mask, 0.0), dim=-1)
    v_at_queries, input_at_queries = (
        split_heads(values_at_queries(merge_heads(values), maps), mixer.num_heads)
        for values in (v, input_values)
    )
    y = v_at_queries / 2 + kernel_product(q, k, v, 1 / math.pi)
    input_y = input_at_queries / 2 + kernel_product(q, k, input_values, 1 / math.pi)
    return y / input_y.norm(dim=-1, keepdim=True).clamp(min=1e-12) + mixer.dwc(v_at_queries)

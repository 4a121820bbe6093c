"""Forward passes of mixers with replaced values.

Queries and keys come from the input, so the output is linear in the values. Its derivative with respect to the values
is the attention matrix of any mixer.
"""
from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mmflatten.models.attention import (
    CrossShapedAttention,
    FocalAttention,
    LinearAngularAttention,
    MapAttention,
    Maps,
    SoftmaxAttention,
    TokenMixer,
    Windowed,
    fill_masked,
    values_at_queries,
)
from mmflatten.models.layers import map_to_tokens
from mmflatten.ops import kernel_product, merge_heads, split_heads

Size = tuple[int, int]


def mix(layer: nn.Module, x: Tensor, hw_shape: Size, v_BMC: Tensor, mask: Tensor | None = None, *,
        local: bool = False, padding: float = 0.) -> Tensor:
    """Compute the output of a layer before its last projection, for given values.

    Args:
        layer: a `TokenMixer`, `Windowed` or `CrossShapedAttention`.
        x: input of the layer's `forward`.
        hw_shape: `(H, W)`.
        v_BMC: values, one row per token, or per token of the reduced key map.
        mask: mask of the layer's `forward`.
        local: True to include depthwise convolutions of the values.
        padding: value of the padding tokens of windows. In focal attention, any value but 0 applies to all keys.

    Returns:
        `(B, N, C)`.
    """
    if isinstance(layer, Windowed):
        return _in_windows(layer, x, hw_shape, v_BMC, local, padding)
    if isinstance(layer, CrossShapedAttention):
        with torch.no_grad():
            parts = layer.parts(x)
        return torch.cat([mix(branch, part, hw_shape, v, local=local, padding=padding) for branch, part, v in zip(
            layer.branches, parts.split(layer.channels, -1), v_BMC.split(layer.channels, -1))], dim=-1)
    if isinstance(layer, FocalAttention):
        return _focal(layer, x, hw_shape, v_BMC, local, padding)
    return _tokens(layer, x, hw_shape, v_BMC, mask, local)


def mix_rows(layer: nn.Module, x: Tensor, hw_shape: Size, v_BMC: Tensor, queries: Tensor, local: bool) -> Tensor:
    """Compute `mix` for some queries, `(B, Q, C)`. Softmax then forms only their rows of its matrix.

    `MapAttention` is supported too, with the map as `x`.
    """
    if isinstance(layer, MapAttention):
        with torch.no_grad():
            q, k = (map_to_tokens(projection(x)) for projection in (layer.coefficients, layer.basis))
        q, k, v = (split_heads(part, layer.num_heads) for part in (q[:, queries], k, v_BMC))
        return merge_heads(layer.operators[layer.normalization](q, k, v))
    if type(layer) is SoftmaxAttention and layer.relative_position_bias is None and not (local and layer.lepe):
        with torch.no_grad():
            q, k, _, maps = layer.projections(x, hw_shape)
        q, k, v = (split_heads(part, layer.num_heads) for part in (q[:, queries], k, v_BMC))
        return merge_heads(layer.attend(q, k, v, maps))
    return mix(layer, x, hw_shape, v_BMC, local=local)[:, queries]


def _tokens(mixer: TokenMixer, x: Tensor, hw_shape: Size, v_BMC: Tensor, mask: Tensor | None, local: bool) -> Tensor:
    with torch.no_grad():
        q, k, input_values, maps = mixer.projections(x, hw_shape, mask)
    parts = (q, k, v_BMC, input_values)
    if mixer.splits_heads:
        parts = tuple(split_heads(part, mixer.num_heads) for part in parts)
    with _convolutions(mixer, local):
        y = _angular(mixer, *parts, maps) if isinstance(mixer, LinearAngularAttention) else mixer.attend(
            *parts[:3], maps)
    y_BNC = merge_heads(y) if mixer.splits_heads else y
    if local and mixer.lepe is not None:
        y_BNC = y_BNC + mixer.lepe(values_at_queries(v_BMC, maps), maps.hw)
    return y_BNC


def _angular(mixer: LinearAngularAttention, q: Tensor, k: Tensor, v: Tensor, input_values: Tensor,
             maps: Maps) -> Tensor:
    """Divide by the length of the output for the values of the input, so that the result is linear in `v`."""
    q, k = F.normalize(q, dim=-1), F.normalize(fill_masked(k, maps.mask, 0.), dim=-1)

    def at_queries(values: Tensor) -> Tensor:
        return split_heads(values_at_queries(merge_heads(values), maps), mixer.num_heads)

    def linear(values: Tensor) -> Tensor:
        return at_queries(values) / 2 + kernel_product(q, k, values, 1 / math.pi)

    length = torch.linalg.vector_norm(linear(input_values), dim=-1, keepdim=True)
    return linear(v) / length.clamp(min=1e-12) + mixer.dwc(at_queries(v))


def _focal(mixer: FocalAttention, x: Tensor, hw_shape: Size, v_BNC: Tensor, local: bool, padding: float) -> Tensor:
    with torch.no_grad():
        q, k, _, maps = mixer.projections(x, hw_shape)
    v = mixer.listed(v_BNC, hw_shape)  # includes the constant biases of the pooling
    if padding:
        v = torch.full_like(v, padding)
    y_BNC = mixer.attend(q, k, v, maps)
    return y_BNC + mixer.lepe(v_BNC, hw_shape) if local and mixer.lepe is not None else y_BNC


class _ReplacedValues(nn.Module):
    """Mixer for use in windows. The last parts of its input `(B, N, P, C)` are the values and a mask of tokens."""

    def __init__(self, mixer: nn.Module, local: bool, padding: float) -> None:
        super().__init__()
        self.mixer, self.local, self.padding = mixer, local, padding
        self.has_logits = getattr(mixer, 'has_logits', False)

    def forward(self, parts: Tensor, hw_shape: Size, mask: Tensor | None = None) -> Tensor:
        x, v, real = parts[:, :, :-2], parts[:, :, -2], parts[:, :, -1]
        v = v + self.padding * (1 - real)
        x = x[:, :, 0] if x.shape[2] == 1 else x
        return mix(self.mixer, x, hw_shape, v, mask, local=self.local, padding=self.padding)


def _in_windows(layer: Windowed, x: Tensor, hw_shape: Size, v_BNC: Tensor, local: bool, padding: float) -> Tensor:
    if getattr(layer.mixer, 'reduction', None) is not None:
        raise ValueError('sr_ratio: must be 1 in windows, because the reduced keys of windows have no common map, got '
                         f'{layer.mixer.reduction.sr_ratio}.')
    parts = torch.cat((x.flatten(2).unflatten(2, (-1, v_BNC.shape[2])), v_BNC[:, :, None],
                       torch.ones_like(v_BNC)[:, :, None]), dim=2)
    mixer = _ReplacedValues(layer.mixer, local, padding)
    return Windowed(mixer, layer.window_size, shift=layer.shift, mask_padding=layer.mask_padding)(parts, hw_shape)


@contextmanager
def _convolutions(mixer: TokenMixer, local: bool) -> Iterator[None]:
    """Without `local`, replace the outputs of the convolutions of the values with zeros."""
    convolutions = [] if local else mixer.local_convolutions().values()
    hooks = [conv.register_forward_hook(lambda module, args, out: torch.zeros_like(out)) for conv in convolutions]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()

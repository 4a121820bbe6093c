"""Cost of each PyTorch operator: multiply-accumulates, other arithmetic, or nothing.

Vision papers call one multiply-accumulate a FLOP. The formulas for products and convolutions are
those of `torch.utils.flop_counter` (two operations per multiply-accumulate); operators missing
there are added here.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import torch
from torch import Tensor
from torch._ops import OpOverload, OpOverloadPacket
from torch.utils.flop_counter import flop_registry

from mmflatten.ops.linear.kernels.flop_formulas import multiply_accumulates

CONV, LINEAR, PRODUCT, OTHER = (
    'convolutions',
    'linear layers',
    'products of activations',
    'norms, resizing, pooling',
)
MATMUL = 'matmul'  # the counter turns it into LINEAR if an operand is a parameter, else PRODUCT

Cost = dict[str, int]
Rule = Callable[..., Cost]


def _from_torch(name: str, formula: Callable[..., int]) -> Rule:
    kind = CONV if 'conv' in name else MATMUL
    return lambda *args, out, **kwargs: {kind: formula(*args, out_val=out, **kwargs) // 2}


def _attention(
    query: Tensor, key: Tensor, value: Tensor, *args: Any, out: Any, **kwargs: Any
) -> Cost:
    """`q k^T` and `p v`; causal and masked attention count in full, like their explicit form."""
    out = out[0] if isinstance(out, (tuple, list)) else out
    return {
        PRODUCT: (
            prod(out.shape[:-2])
            * query.shape[-2]
            * key.shape[-2]
            * (query.shape[-1] + value.shape[-1])
        )
    }


def _self_attention_layer(query: Tensor, *args: Any, **kwargs: Any) -> Cost:
    """Fused `nn.MultiheadAttention` in evaluation mode: four projections and two products."""
    B, N, C = query.shape
    return {LINEAR: 4 * B * N * C * C, PRODUCT: 2 * B * N * N * C}


def _encoder_layer(src: Tensor, *args: Any, **kwargs: Any) -> Cost:
    """Fused `nn.TransformerEncoderLayer` in evaluation mode; `args[13]` is the first weight of its
    MLP.
    """
    cost = _self_attention_layer(src)
    cost[LINEAR] += 2 * src.numel() * args[13].shape[0]
    return {**cost, OTHER: 2 * 5 * src.numel()}


MAC_RULES: dict[str, Rule] = {
    **{
        packet._qualified_op_name: _from_torch(packet._qualified_op_name, formula)
        for packet, formula in flop_registry.items()
        if isinstance(packet, OpOverloadPacket)
    },
    **dict.fromkeys(
        (
            'aten::scaled_dot_product_attention',
            'aten::_scaled_dot_product_flash_attention',
            'aten::_scaled_dot_product_flash_attention_for_cpu',
            'aten::_scaled_dot_product_efficient_attention',
            'aten::_scaled_dot_product_cudnn_attention',
            'aten::_scaled_dot_product_fused_attention_overrideable',
        ),
        _attention,
    ),
    'aten::_native_multi_head_attention': _self_attention_layer,
    'aten::_transformer_encoder_layer_fwd': _encoder_layer,
    **dict.fromkeys(
        ('aten::mv', 'aten::dot', 'aten::vdot'), lambda a, b, **kwargs: {MATMUL: a.numel()}
    ),
    'aten::addmv': lambda self, a, b, **kwargs: {MATMUL: a.numel()},
    'aten::addbmm': lambda self, a, b, **kwargs: {MATMUL: a.numel() * b.shape[-1]},
    'mmflatten::linear_attention': lambda q, k, *args, **kwargs: {
        PRODUCT: multiply_accumulates(q.shape, k.shape)
    },
    # Sampling at the offsets is elementwise.
    'torchvision::deform_conv2d': lambda x, weight, *args, out, **kwargs: {
        CONV: out.numel() // out.shape[1] * weight.numel()
    },
}
MAC_RULES |= {
    'aten::_addmm_activation': MAC_RULES['aten::addmm'],
    'aten::_int_mm': MAC_RULES['aten::mm'],
}


def _norm(weight_at: int, with_weight: int, without: int) -> Rule:
    return lambda *args, **kwargs: {
        OTHER: args[0].numel() * (without if args[weight_at] is None else with_weight)
    }


def _resize(factor: int) -> Rule:
    return lambda *args, out, **kwargs: {OTHER: factor * out.numel()}


# Elementwise arithmetic that `mmengine.analysis` counts, with its factors.
OPENMMLAB_RULES: dict[str, Rule] = {
    'aten::native_layer_norm': _norm(2, 5, 4),
    'aten::native_group_norm': _norm(1, 5, 4),
    **dict.fromkeys(
        (
            'aten::native_batch_norm',
            'aten::cudnn_batch_norm',
            # in evaluation mode
            'aten::_native_batch_norm_legit_no_training',
        ),
        _norm(1, 2, 1),
    ),
    'aten::upsample_nearest2d': _resize(1),
    'aten::upsample_bilinear2d': _resize(4),
    'aten::grid_sampler_2d': _resize(4),
    'aten::_adaptive_avg_pool2d': lambda x, *args, **kwargs: {OTHER: x.numel()},
    # nn.AdaptiveAvgPool2d(1) is dispatched as this one
    'aten::mean': lambda x, dim=None, *args, **kwargs: (
        {OTHER: x.numel()} if x.dim() == 4 and list(dim or ()) == [-1, -2] else {}
    ),
}

# Elementwise operators that PyTorch tags neither as pointwise nor as a reduction.
_ELEMENTWISE = set(
    """
    torchvision::roi_align
    _softmax _safe_softmax _log_softmax native_layer_norm native_group_norm native_batch_norm cudnn_batch_norm
    _native_batch_norm_legit_no_training _native_batch_norm_legit native_dropout glu hardswish linalg_vector_norm
    avg_pool1d avg_pool2d avg_pool3d max_pool2d_with_indices max_pool3d_with_indices _adaptive_avg_pool2d
    _adaptive_avg_pool3d adaptive_max_pool2d upsample_nearest1d upsample_nearest2d upsample_nearest3d
    upsample_linear1d upsample_bilinear2d _upsample_bilinear2d_aa upsample_bicubic2d _upsample_bicubic2d_aa
    upsample_trilinear3d grid_sampler_2d grid_sampler_3d cumsum cumprod cummax cummin logcumsumexp sort topk
    col2im masked_fill scatter_add scatter_reduce index_add floor_divide addr tril triu linspace max min median kthvalue
""".split()
)

# Operators without arithmetic: memory, shapes, indices, constants.
_FREE = set(
    """
    _unsafe_view _reshape_copy clone copy _to_copy cat stack index index_select index_put gather scatter roll flip
    rot90 repeat embedding pixel_shuffle pixel_unshuffle channel_shuffle native_channel_shuffle constant_pad_nd
    reflection_pad1d reflection_pad2d replication_pad2d im2col zeros ones empty full arange eye scalar_tensor
    zeros_like ones_like empty_like full_like new_zeros new_ones new_empty new_full empty_strided new_empty_strided
    rand rand_like randn randn_like randint randperm fill zero uniform normal bernoulli lift lift_fresh
    repeat_interleave nonzero masked_select masked_scatter slice_scatter select_scatter as_strided resize set
    tril_indices triu_indices split_with_sizes_copy detach _local_scalar_dense is_same_size equal
""".split()
)


def operator_name(func: OpOverload) -> str:
    """Return `namespace::name`, the same for an operator and its in-place form."""
    return func._schema.name.rstrip('_')


def is_free(func: OpOverload) -> bool:
    """Return True if an operator moves, creates or describes data without arithmetic."""
    return func.is_view or operator_name(func).removeprefix('aten::') in _FREE


def is_elementwise(func: OpOverload) -> bool:
    """Return True for elementwise operators (activations, norms, pooling, resizing, sums), without
    MACs.
    """
    tagged = torch.Tag.pointwise in func.tags or getattr(torch.Tag, 'reduction', None) in func.tags
    return tagged or operator_name(func).removeprefix('aten::') in _ELEMENTWISE

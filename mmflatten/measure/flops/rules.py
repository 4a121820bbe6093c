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
from torch import Tensor, nn
from torch._ops import OpOverload, OpOverloadPacket
from torch.utils.flop_counter import flop_registry

from mmflatten.ops.linear.kernels.flop_formulas import multiply_accumulates

# Kinds of operations.
CONV = 'convolutions'
LINEAR = 'linear layers'
PRODUCT = 'products of activations'
OTHER = 'norms, resizing, pooling'
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
    batch = prod(out.shape[:-2])  # of several dimensions, heads included
    N, d = query.shape[-2:]
    M, e = value.shape[-2:]
    return {PRODUCT: batch * N * M * (d + e)}


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
    cost[OTHER] = 2 * 5 * src.numel()  # two layer norms
    return cost


def _vector_product(a: Tensor, *args: Any, **kwargs: Any) -> Cost:
    return {MATMUL: a.numel()}


def _add_vector_product(bias: Tensor, a: Tensor, *args: Any, **kwargs: Any) -> Cost:
    return {MATMUL: a.numel()}


def _add_batched_product(bias: Tensor, a: Tensor, b: Tensor, **kwargs: Any) -> Cost:
    return {MATMUL: a.numel() * b.shape[-1]}


def _linear_attention(q: Tensor, k: Tensor, *args: Any, **kwargs: Any) -> Cost:
    return {PRODUCT: multiply_accumulates(q.shape, k.shape)}


def _deformable_convolution(x: Tensor, weight: Tensor, *args: Any, out: Tensor, **kwargs) -> Cost:
    # Sampling at the offsets is elementwise.
    return {CONV: out.numel() // out.shape[1] * weight.numel()}


# PyTorch's formulas first, which ours replace.
MAC_RULES: dict[str, Rule] = {}
for _packet, _formula in flop_registry.items():
    if isinstance(_packet, OpOverloadPacket):
        _name = _packet._qualified_op_name
        MAC_RULES[_name] = _from_torch(_name, _formula)
MAC_RULES |= {
    'aten::scaled_dot_product_attention': _attention,
    'aten::_scaled_dot_product_flash_attention': _attention,
    'aten::_scaled_dot_product_flash_attention_for_cpu': _attention,
    'aten::_scaled_dot_product_efficient_attention': _attention,
    'aten::_scaled_dot_product_cudnn_attention': _attention,
    'aten::_scaled_dot_product_fused_attention_overrideable': _attention,
    'aten::_native_multi_head_attention': _self_attention_layer,
    'aten::_transformer_encoder_layer_fwd': _encoder_layer,
    'aten::mv': _vector_product,
    'aten::dot': _vector_product,
    'aten::vdot': _vector_product,
    'aten::addmv': _add_vector_product,
    'aten::addbmm': _add_batched_product,
    'aten::_addmm_activation': MAC_RULES['aten::addmm'],
    'aten::_int_mm': MAC_RULES['aten::mm'],
    'mmflatten::linear_attention': _linear_attention,
    'torchvision::deform_conv2d': _deformable_convolution,
}


def _deformable_attention(module: nn.Module, output: Tensor) -> Cost:
    """Weighted sum of the sampled values: a value of each level, point and channel for each query.

    Zhu et al., Deformable DETR (ICLR 2021), appendix A.1, count 5 N K C for N queries, K points and
    C channels: N K C here, and 4 N K C for bilinear sampling, which is `grid_sampler_2d`.
    """
    queries = output.numel() // module.embed_dims
    points = module.num_levels * module.num_points
    return {PRODUCT: queries * points * module.value_proj.out_features}


# Arithmetic that a module writes as elementwise operators, from its output: class -> cost.
MODULE_RULES: dict[str, Rule] = {'MultiScaleDeformableAttention': _deformable_attention}


def _norm(weight_at: int, with_weight: int, without: int) -> Rule:
    def rule(*args: Any, **kwargs: Any) -> Cost:
        factor = without if args[weight_at] is None else with_weight
        return {OTHER: factor * args[0].numel()}

    return rule


def _resize(factor: int) -> Rule:
    return lambda *args, out, **kwargs: {OTHER: factor * out.numel()}


def _pool(x: Tensor, *args: Any, **kwargs: Any) -> Cost:
    return {OTHER: x.numel()}


def _global_pool(x: Tensor, dim: Any = None, *args: Any, **kwargs: Any) -> Cost:
    """Mean over a map, as which PyTorch dispatches nn.AdaptiveAvgPool2d(1)."""
    is_pooling = x.dim() == 4 and list(dim or ()) == [-1, -2]
    return {OTHER: x.numel()} if is_pooling else {}


# Elementwise arithmetic that `mmengine.analysis` counts, with its factors.
OPENMMLAB_RULES: dict[str, Rule] = {
    'aten::native_layer_norm': _norm(2, 5, 4),
    'aten::native_group_norm': _norm(1, 5, 4),
    'aten::native_batch_norm': _norm(1, 2, 1),
    'aten::cudnn_batch_norm': _norm(1, 2, 1),
    'aten::_native_batch_norm_legit_no_training': _norm(1, 2, 1),  # in evaluation mode
    'aten::upsample_nearest2d': _resize(1),
    'aten::upsample_bilinear2d': _resize(4),
    'aten::grid_sampler_2d': _resize(4),
    'aten::_adaptive_avg_pool2d': _pool,
    'aten::mean': _global_pool,
}

# Elementwise operators that PyTorch tags neither as pointwise nor as a reduction; PyTorch 2.10 does
# not tag the last two.
_ELEMENTWISE = set(
    """
    torchvision::roi_align _softmax _safe_softmax _log_softmax native_layer_norm
    native_group_norm native_batch_norm cudnn_batch_norm _native_batch_norm_legit_no_training
    _native_batch_norm_legit native_dropout glu hardswish linalg_vector_norm avg_pool1d
    avg_pool2d avg_pool3d max_pool2d_with_indices max_pool3d_with_indices _adaptive_avg_pool2d
    _adaptive_avg_pool3d adaptive_max_pool2d upsample_nearest1d upsample_nearest2d
    upsample_nearest3d upsample_linear1d upsample_bilinear2d _upsample_bilinear2d_aa
    upsample_bicubic2d _upsample_bicubic2d_aa upsample_trilinear3d grid_sampler_2d
    grid_sampler_3d cumsum cumprod cummax cummin logcumsumexp sort topk col2im masked_fill
    scatter_add scatter_reduce index_add floor_divide addr tril triu linspace max min median
    kthvalue leaky_relu ldexp
""".split()
)

# Operators without arithmetic: memory, shapes, indices, constants.
_FREE = set(
    """
    _unsafe_view _reshape_copy clone copy _to_copy cat stack index index_select index_put gather
    scatter roll flip rot90 repeat embedding pixel_shuffle pixel_unshuffle channel_shuffle
    native_channel_shuffle constant_pad_nd reflection_pad1d reflection_pad2d replication_pad2d
    im2col zeros ones empty full arange eye scalar_tensor zeros_like ones_like empty_like
    full_like new_zeros new_ones new_empty new_full empty_strided new_empty_strided rand
    rand_like randn randn_like randint randperm fill zero uniform normal bernoulli lift
    lift_fresh repeat_interleave nonzero masked_select masked_scatter slice_scatter
    select_scatter as_strided resize set tril_indices triu_indices split_with_sizes_copy detach
    _local_scalar_dense is_same_size equal
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

"""Attention operators: pure functions on tensors that need torch alone."""
from mmflatten.ops.feature_maps import focused_map, focused_query_map
from mmflatten.ops.heads import merge_heads, split_heads
from mmflatten.ops.linear import kernel_product, linear_attention
from mmflatten.ops.precision import no_autocast, upcast
from mmflatten.ops.resize import resize_grid, resize_relative_position_bias
from mmflatten.ops.softmax import softmax_attention
from mmflatten.ops.windows import padded_window_mask, shifted_window_mask, window_partition, window_reverse

__all__ = [
    'focused_map', 'focused_query_map', 'kernel_product', 'linear_attention', 'merge_heads', 'no_autocast',
    'padded_window_mask', 'resize_grid', 'resize_relative_position_bias', 'shifted_window_mask', 'softmax_attention',
    'split_heads', 'upcast', 'window_partition', 'window_reverse',
]

"""Attention operators: pure functions on tensors, which require only torch and einops."""
from mmflatten.ops.agent import agent_attention
from mmflatten.ops.angular import angular_attention
from mmflatten.ops.block_heads import block_linear_attention
from mmflatten.ops.circulant import circulant_attention
from mmflatten.ops.cosformer import cosformer_map
from mmflatten.ops.cost_volume import concat_cost_volume, soft_argmax_disparity
from mmflatten.ops.cross_covariance import cross_covariance_attention
from mmflatten.ops.efficient import efficient_attention
from mmflatten.ops.factorized import (
    conventional_dot_attention,
    conventional_gaussian_attention,
    factorized_dot_attention,
)
from mmflatten.ops.feature_maps import focused_features, focused_map, positive_power, signed_parts
from mmflatten.ops.focal import focal_attention
from mmflatten.ops.focal_keys import (
    neighbor_offsets,
    pooled_keys,
    resize_neighbor_bias,
    visible_keys,
    window_order,
    window_positions,
)
from mmflatten.ops.heads import merge_heads, split_heads
from mmflatten.ops.hydra import hydra_attention
from mmflatten.ops.inline import inline_attention
from mmflatten.ops.linear import kernel_product, linear_attention
from mmflatten.ops.magnitude_aware import magnitude_aware_attention
from mmflatten.ops.manhattan import manhattan_attention
from mmflatten.ops.neighborhood import neighborhood_attention
from mmflatten.ops.nystrom import nystrom_attention
from mmflatten.ops.precision import full_precision, no_autocast, upcast, widen
from mmflatten.ops.random_features import orthogonal_features, random_feature_map
from mmflatten.ops.rank_augmented import global_key_weights
from mmflatten.ops.resize import cell_shares, pool_cells, resize_grid, resize_relative_position_bias
from mmflatten.ops.rotary import rotary_1d, rotary_2d
from mmflatten.ops.routing import routed_regions, routing_attention
from mmflatten.ops.sima import sima_attention
from mmflatten.ops.softmax import softmax_attention
from mmflatten.ops.ttt import conv_test_time_training, gated_test_time_training
from mmflatten.ops.windows import (
    pad_and_roll,
    padded_window_mask,
    roll_and_crop,
    shifted_window_mask,
    window_partition,
    window_reverse,
)

__all__ = [
    'agent_attention', 'angular_attention', 'block_linear_attention', 'cell_shares', 'circulant_attention',
    'concat_cost_volume', 'conv_test_time_training', 'conventional_dot_attention', 'conventional_gaussian_attention',
    'cosformer_map', 'cross_covariance_attention', 'efficient_attention', 'factorized_dot_attention',
    'focal_attention', 'focused_features', 'focused_map', 'full_precision', 'gated_test_time_training',
    'global_key_weights', 'hydra_attention', 'inline_attention', 'kernel_product', 'linear_attention',
    'magnitude_aware_attention', 'manhattan_attention', 'merge_heads', 'neighbor_offsets', 'neighborhood_attention',
    'no_autocast', 'nystrom_attention', 'orthogonal_features', 'pad_and_roll', 'padded_window_mask', 'pool_cells',
    'pooled_keys', 'positive_power', 'random_feature_map', 'resize_grid', 'resize_neighbor_bias',
    'resize_relative_position_bias', 'roll_and_crop', 'rotary_1d', 'rotary_2d', 'routed_regions', 'routing_attention',
    'shifted_window_mask', 'signed_parts', 'sima_attention', 'soft_argmax_disparity', 'softmax_attention',
    'split_heads', 'upcast', 'visible_keys', 'widen', 'window_order', 'window_partition', 'window_positions',
    'window_reverse',
]

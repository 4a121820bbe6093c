"""Attention operators: pure functions on tensors, which require only torch and einops.

The suffix of an argument is its shape: `q_BhNd` are queries `(B, h, N, d)`, `k_BhMd` keys and
`v_BhMe` values. Unless its docstring says otherwise, an attention returns `(B, h, N, e)`, or
`(B, N, C)` without heads, in the type of `v`.
"""

from mmflatten.ops.cost_volume import concat_cost_volume, soft_argmax_disparity
from mmflatten.ops.cross_covariance import cross_covariance_attention
from mmflatten.ops.factorized import (
    conventional_dot_attention,
    conventional_gaussian_attention,
    efficient_attention,
    factorized_dot_attention,
)
from mmflatten.ops.focal import (
    focal_attention,
    neighbor_offsets,
    pooled_keys,
    resize_neighbor_bias,
    visible_keys,
    window_order,
    window_positions,
)
from mmflatten.ops.heads import merge_heads, split_heads
from mmflatten.ops.linear import (
    angular_attention,
    block_linear_attention,
    cosformer_map,
    focused_map,
    global_key_weights,
    hydra_attention,
    inline_attention,
    kernel_product,
    linear_attention,
    magnitude_aware_attention,
    orthogonal_features,
    positive_power,
    random_feature_map,
    signed_parts,
    sima_attention,
)
from mmflatten.ops.precision import full_precision, no_autocast, upcast, widen
from mmflatten.ops.rate_reduction import (
    contract_and_broadcast_attention,
    token_statistics_attention,
)
from mmflatten.ops.resize import (
    cell_weights,
    pool_cells,
    resize_grid,
    resize_relative_position_bias,
)
from mmflatten.ops.rotary import rotary_1d, rotary_2d, rotary_normalized
from mmflatten.ops.softmax import agent_attention, nystrom_attention, softmax_attention
from mmflatten.ops.state_space import hidden_state_attention, state_space_attention
from mmflatten.ops.ttt import (
    conv_test_time_training,
    gated_test_time_training,
    swiglu_test_time_training,
)
from mmflatten.ops.whole_map import (
    circulant_attention,
    manhattan_attention,
    neighborhood_attention,
    routed_regions,
    routing_attention,
)
from mmflatten.ops.windows import (
    pad_and_roll,
    padded_window_mask,
    roll_and_crop,
    shifted_window_mask,
    window_partition,
    window_reverse,
)

__all__ = [
    'agent_attention',
    'angular_attention',
    'block_linear_attention',
    'cell_weights',
    'circulant_attention',
    'concat_cost_volume',
    'contract_and_broadcast_attention',
    'conv_test_time_training',
    'conventional_dot_attention',
    'conventional_gaussian_attention',
    'cosformer_map',
    'cross_covariance_attention',
    'efficient_attention',
    'factorized_dot_attention',
    'focal_attention',
    'focused_map',
    'full_precision',
    'gated_test_time_training',
    'global_key_weights',
    'hidden_state_attention',
    'hydra_attention',
    'inline_attention',
    'kernel_product',
    'linear_attention',
    'magnitude_aware_attention',
    'manhattan_attention',
    'merge_heads',
    'neighbor_offsets',
    'neighborhood_attention',
    'no_autocast',
    'nystrom_attention',
    'orthogonal_features',
    'pad_and_roll',
    'padded_window_mask',
    'pool_cells',
    'pooled_keys',
    'positive_power',
    'random_feature_map',
    'resize_grid',
    'resize_neighbor_bias',
    'resize_relative_position_bias',
    'roll_and_crop',
    'rotary_1d',
    'rotary_2d',
    'rotary_normalized',
    'routed_regions',
    'routing_attention',
    'shifted_window_mask',
    'signed_parts',
    'sima_attention',
    'soft_argmax_disparity',
    'softmax_attention',
    'split_heads',
    'state_space_attention',
    'swiglu_test_time_training',
    'token_statistics_attention',
    'upcast',
    'visible_keys',
    'widen',
    'window_order',
    'window_partition',
    'window_positions',
    'window_reverse',
]

"""Explicit O(N^2) reference of every operator, for tests and analysis.

Each function has the name of its operator and stands beside it, in
`mmflatten.ops.<idea>.reference`. It forms the whole attention matrix `(B, h, N, M)` by the textbook
formula.
"""

from mmflatten.ops.cost_volume.reference import concat_cost_volume, soft_argmax_disparity
from mmflatten.ops.cross_covariance.reference import cross_covariance_attention
from mmflatten.ops.factorized.reference import (
    conventional_dot_attention,
    conventional_gaussian_attention,
    conventional_gaussian_matrix,
    dot_attention_matrix,
    efficient_attention,
    efficient_attention_matrix,
    factorized_dot_attention,
)
from mmflatten.ops.focal.reference import focal_attention
from mmflatten.ops.linear.reference import (
    angular_attention,
    block_linear_attention,
    cosformer_scores,
    focused_map,
    hydra_attention,
    inline_attention,
    kernel_product,
    linear_attention,
    linear_attention_matrix,
    magnitude_aware_attention,
    sima_attention,
)
from mmflatten.ops.rate_reduction.reference import (
    contract_and_broadcast_attention,
    token_statistics_attention,
)
from mmflatten.ops.rotary.reference import rotary_2d, rotary_normalized
from mmflatten.ops.softmax.reference import agent_attention, nystrom_attention, softmax_attention
from mmflatten.ops.state_space.reference import hidden_state_attention, state_space_attention
from mmflatten.ops.ttt.reference import (
    conv_test_time_training,
    gated_test_time_training,
    swiglu_test_time_training,
)
from mmflatten.ops.whole_map.reference import (
    circulant_attention,
    manhattan_attention,
    neighborhood_attention,
)

__all__ = [
    'agent_attention',
    'angular_attention',
    'block_linear_attention',
    'circulant_attention',
    'concat_cost_volume',
    'contract_and_broadcast_attention',
    'conv_test_time_training',
    'conventional_dot_attention',
    'conventional_gaussian_attention',
    'conventional_gaussian_matrix',
    'cosformer_scores',
    'cross_covariance_attention',
    'dot_attention_matrix',
    'efficient_attention',
    'efficient_attention_matrix',
    'factorized_dot_attention',
    'focal_attention',
    'focused_map',
    'gated_test_time_training',
    'hidden_state_attention',
    'hydra_attention',
    'inline_attention',
    'kernel_product',
    'linear_attention',
    'linear_attention_matrix',
    'magnitude_aware_attention',
    'manhattan_attention',
    'neighborhood_attention',
    'nystrom_attention',
    'rotary_2d',
    'rotary_normalized',
    'sima_attention',
    'soft_argmax_disparity',
    'softmax_attention',
    'state_space_attention',
    'swiglu_test_time_training',
    'token_statistics_attention',
]

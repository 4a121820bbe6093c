"""Linear attention: operator, feature maps, explicit references and fused kernels."""

from mmflatten.ops.linear.block_heads import block_linear_attention
from mmflatten.ops.linear.feature_maps import (
    cosformer_map,
    focused_map,
    orthogonal_features,
    positive_power,
    random_feature_map,
    signed_parts,
)
from mmflatten.ops.linear.normalizations import (
    angular_attention,
    global_key_weights,
    hydra_attention,
    inline_attention,
    magnitude_aware_attention,
    sima_attention,
)
from mmflatten.ops.linear.operator import kernel_product, linear_attention

__all__ = [
    'angular_attention',
    'block_linear_attention',
    'cosformer_map',
    'focused_map',
    'global_key_weights',
    'hydra_attention',
    'inline_attention',
    'kernel_product',
    'linear_attention',
    'magnitude_aware_attention',
    'orthogonal_features',
    'positive_power',
    'random_feature_map',
    'signed_parts',
    'sima_attention',
]

"""Layers shared by all families."""
from mmflatten.models.layers.agent_bias import AgentBias
from mmflatten.models.layers.conv_stem import ConvStem, NormedDownsample, conv_bn
from mmflatten.models.layers.drop_path import DropPath
from mmflatten.models.layers.embed import ClassTokenEmbed, ConvEmbed, PatchMerging, pad_to_multiple
from mmflatten.models.layers.feed_forward import ConvFeedForward, FeedForward
from mmflatten.models.layers.focal_position import NeighborBias, PooledBias
from mmflatten.models.layers.linear import FullRangeLinear, Linear, LinearGELU
from mmflatten.models.layers.local_concentration import LocalConcentration, NormalizedConv
from mmflatten.models.layers.position import GridTable, RelativePositionBias, TokenConv
from mmflatten.models.layers.progressive_norm import ProgressiveBatchNorm, make_norms_progressive
from mmflatten.models.layers.residual import Block, Residual, pre_norm_block
from mmflatten.models.layers.tokens import (
    join_prefix,
    map_shape,
    map_to_tokens,
    on_map,
    output_map,
    split_prefix,
    tokens_to_map,
)

__all__ = [
    'AgentBias', 'Block', 'ClassTokenEmbed', 'ConvEmbed', 'ConvFeedForward', 'ConvStem', 'DropPath', 'FeedForward',
    'FullRangeLinear', 'GridTable', 'Linear', 'LinearGELU', 'LocalConcentration', 'NeighborBias', 'NormalizedConv',
    'NormedDownsample', 'PatchMerging', 'PooledBias', 'ProgressiveBatchNorm', 'RelativePositionBias', 'Residual',
    'TokenConv', 'conv_bn', 'join_prefix', 'make_norms_progressive', 'map_shape', 'map_to_tokens', 'on_map',
    'output_map', 'pad_to_multiple', 'pre_norm_block', 'split_prefix', 'tokens_to_map',
]

"""Layers shared by all families."""

from mmflatten.models.layers.embed import (
    ConvEmbed,
    ConvStack,
    NormedDownsample,
    PatchMerging,
    TokenBatchNorm,
    conv_bn,
    pad_to_multiple,
)
from mmflatten.models.layers.feed_forward import ConvFeedForward, FeedForward, SwiGLU
from mmflatten.models.layers.focal import (
    NeighborBias,
    PooledBias,
    WindowGrid,
    WindowPool,
    sub_windows,
)
from mmflatten.models.layers.linear import (
    FullRangeLinear,
    Linear,
    LinearGELU,
    LinearWithoutKeyBias,
)
from mmflatten.models.layers.position import (
    AgentBias,
    GridTable,
    NormalizedRotary,
    RelativePositionBias,
)
from mmflatten.models.layers.pre_norm import pre_norm_block
from mmflatten.models.layers.progressive_norm import ProgressiveBatchNorm, make_norms_progressive
from mmflatten.models.layers.residual import Block, DropPath, Residual
from mmflatten.models.layers.token_conv import (
    LocalConcentration,
    NormalizedConv,
    TokenConv,
    check_odd,
)
from mmflatten.models.layers.tokens import (
    join_prefix,
    map_shape,
    map_to_tokens,
    on_map,
    output_map,
    split_prefix,
    tokens_to_map,
)
from mmflatten.models.layers.windows import WindowedResidual, Windows

__all__ = [
    'AgentBias',
    'Block',
    'ConvEmbed',
    'ConvFeedForward',
    'ConvStack',
    'DropPath',
    'FeedForward',
    'FullRangeLinear',
    'GridTable',
    'Linear',
    'LinearGELU',
    'LinearWithoutKeyBias',
    'LocalConcentration',
    'NeighborBias',
    'NormalizedConv',
    'NormalizedRotary',
    'NormedDownsample',
    'PatchMerging',
    'PooledBias',
    'ProgressiveBatchNorm',
    'RelativePositionBias',
    'Residual',
    'SwiGLU',
    'TokenBatchNorm',
    'TokenConv',
    'WindowGrid',
    'WindowPool',
    'WindowedResidual',
    'Windows',
    'check_odd',
    'conv_bn',
    'join_prefix',
    'make_norms_progressive',
    'map_shape',
    'map_to_tokens',
    'on_map',
    'output_map',
    'pad_to_multiple',
    'pre_norm_block',
    'split_prefix',
    'sub_windows',
    'tokens_to_map',
]

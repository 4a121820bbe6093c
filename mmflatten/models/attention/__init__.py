"""Token mixers."""

from mmflatten.models.attention.base import TokenMixer, build_mixer
from mmflatten.models.attention.block_heads import TokenLevelMultiHeadAttention
from mmflatten.models.attention.clamped import ClampedLinearAttention
from mmflatten.models.attention.contract_broadcast import ContractBroadcastAttention
from mmflatten.models.attention.cross_shaped import CrossShapedAttention
from mmflatten.models.attention.differential import GatedDifferentialLinearAttention
from mmflatten.models.attention.focal import FocalAttention
from mmflatten.models.attention.focused import FocusedLinearAttention
from mmflatten.models.attention.gated import (
    GatedMixer,
    GatedSoftmaxAttention,
    MagnitudeAwareLinearAttention,
    NormAwareLinearAttention,
    RankAugmentedLinearAttention,
)
from mmflatten.models.attention.hidden_state import HiddenStateMixer
from mmflatten.models.attention.inline import InLineAttention
from mmflatten.models.attention.landmarks import (
    AgentAttention,
    LinformerAttention,
    NystromAttention,
    VisualContrastAttention,
)
from mmflatten.models.attention.linear import (
    CosFormerAttention,
    CrossCovarianceAttention,
    EfficientAttention,
    EnhancedLinearAttention,
    HydraAttention,
    LinearAngularAttention,
    LinearAttention,
    PerformerAttention,
    SimAAttention,
)
from mmflatten.models.attention.local_term import LocalTerm, ValueConv
from mmflatten.models.attention.mamba_inspired import MambaInspiredLinearAttention
from mmflatten.models.attention.map_attention import (
    ConventionalAttention,
    FactorizedAttention,
    MapAttention,
)
from mmflatten.models.attention.maps import (
    Maps,
    fill_masked,
    mean_of_real,
    real_tokens,
    values_at_queries,
)
from mmflatten.models.attention.multi_scale import MultiScaleLinearAttention
from mmflatten.models.attention.polarity_aware import (
    ExponentialPolarityAttention,
    PolarityAwareLinearAttention,
)
from mmflatten.models.attention.softmax import SoftmaxAttention
from mmflatten.models.attention.state_space import StateSpaceAttention
from mmflatten.models.attention.token_statistics import TokenStatisticsAttention
from mmflatten.models.attention.ttt import TransformerToTTTAttention, TTTAttention
from mmflatten.models.attention.whole_map import (
    BiLevelRoutingAttention,
    CirculantAttention,
    ManhattanAttention,
    NeighborhoodAttention,
)
from mmflatten.models.attention.windowed import Windowed

__all__ = [
    'AgentAttention',
    'BiLevelRoutingAttention',
    'CirculantAttention',
    'ClampedLinearAttention',
    'ContractBroadcastAttention',
    'ConventionalAttention',
    'CosFormerAttention',
    'CrossCovarianceAttention',
    'CrossShapedAttention',
    'EfficientAttention',
    'EnhancedLinearAttention',
    'ExponentialPolarityAttention',
    'FactorizedAttention',
    'FocalAttention',
    'FocusedLinearAttention',
    'GatedDifferentialLinearAttention',
    'GatedMixer',
    'GatedSoftmaxAttention',
    'HiddenStateMixer',
    'HydraAttention',
    'InLineAttention',
    'LinearAngularAttention',
    'LinearAttention',
    'LinformerAttention',
    'LocalTerm',
    'MagnitudeAwareLinearAttention',
    'MambaInspiredLinearAttention',
    'ManhattanAttention',
    'MapAttention',
    'Maps',
    'MultiScaleLinearAttention',
    'NeighborhoodAttention',
    'NormAwareLinearAttention',
    'NystromAttention',
    'PerformerAttention',
    'PolarityAwareLinearAttention',
    'RankAugmentedLinearAttention',
    'SimAAttention',
    'SoftmaxAttention',
    'StateSpaceAttention',
    'TTTAttention',
    'TokenLevelMultiHeadAttention',
    'TokenMixer',
    'TokenStatisticsAttention',
    'TransformerToTTTAttention',
    'ValueConv',
    'VisualContrastAttention',
    'Windowed',
    'build_mixer',
    'fill_masked',
    'mean_of_real',
    'real_tokens',
    'values_at_queries',
]

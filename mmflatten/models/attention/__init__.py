"""Token mixers: one file per idea."""
from mmflatten.models.attention.base import TokenMixer, build_mixer, fill_masked
from mmflatten.models.attention.cross_shaped import CrossShapedAttention
from mmflatten.models.attention.enhanced_linear import ClampedLinearAttention
from mmflatten.models.attention.focused import FocusedLinearAttention
from mmflatten.models.attention.softmax import SoftmaxAttention
from mmflatten.models.attention.windowed import Windowed

__all__ = [
    'ClampedLinearAttention', 'CrossShapedAttention', 'FocusedLinearAttention', 'SoftmaxAttention', 'TokenMixer',
    'Windowed', 'build_mixer', 'fill_masked',
]

"""Token mixers: one file per idea."""
from mmflatten.models.attention.base import TokenMixer, build_mixer, fill_masked
from mmflatten.models.attention.focused import FocusedLinearAttention
from mmflatten.models.attention.softmax import SoftmaxAttention
from mmflatten.models.attention.windowed import Windowed

__all__ = ['FocusedLinearAttention', 'SoftmaxAttention', 'TokenMixer', 'Windowed', 'build_mixer', 'fill_masked']

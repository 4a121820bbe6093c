"""What an attention attends: the weights of every mixer, without its formula."""
from mmflatten.analysis.attention.layer import AttentionLayer
from mmflatten.analysis.attention.probe import AttentionProbe

__all__ = ['AttentionLayer', 'AttentionProbe']

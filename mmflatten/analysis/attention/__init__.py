"""What an attention attends: the weights of every mixer, without its formula."""
from mmflatten.analysis.attention.layer import AttentionLayer
from mmflatten.analysis.attention.probe import AttentionProbe
from mmflatten.analysis.attention.spectrum import effective_rank, entropy, rank, singular_values

__all__ = ['AttentionLayer', 'AttentionProbe', 'effective_rank', 'entropy', 'rank', 'singular_values']

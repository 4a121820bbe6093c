"""DeiT as in timm, and FLatten-DeiT, which has no released weights: its names are those of the
authors' other DeiTs.
"""

from mmflatten.checkpoints.families.common import focused
from mmflatten.checkpoints.families.skeletons import vit

DEIT = vit('deit', {'softmax': (), 'linear': focused('attn', 'attn.fn')}, base='vit')

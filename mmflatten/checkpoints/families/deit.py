"""DeiT as in timm, and FLatten-DeiT, which is not released: its names follow other DeiTs by the same authors."""
from mmflatten.checkpoints.families.common import focused
from mmflatten.checkpoints.families.skeletons import vit

DEIT = vit('deit', {'softmax': (), 'linear': focused('attn', 'attn.fn')}, base='vit')

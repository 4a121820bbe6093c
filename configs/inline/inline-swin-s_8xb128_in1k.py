"""InLine-Swin-S on ImageNet-1k.

InLine, README: 83.6 % top-1. Not run by this project. Inferred: it trains like FLatten-Swin-S, of
the same lab; the drop path is the authors'.
"""

_base_ = ['./inline-swin-t_8xb128_in1k.py']

model = dict(backbone=dict(arch='small', attn_types='LLSS', drop_path_rate=0.3))

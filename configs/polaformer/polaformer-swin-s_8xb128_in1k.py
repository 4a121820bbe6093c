"""PolaFormer-Swin-S on ImageNet-1k.

PolaFormer, README: 83.6 % top-1. Not run by this project. Inferred: it trains like FLatten-Swin-S,
on whose code it builds; the drop path is the authors'.
"""

_base_ = ['./polaformer-swin-t_8xb128_in1k.py']

model = dict(backbone=dict(arch='small', drop_path_rate=0.3))

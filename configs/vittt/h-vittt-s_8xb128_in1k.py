"""H-ViT^3-S on ImageNet-1k.

ViT^3, README: 84.9 % top-1. Not run by this project. The authors train with MESA, which is left out
here. Inferred: it trains like Swin, with the drop path of MILA, of the same lab.
"""

_base_ = ['../_base_/recipes/grid_300e_in1k.py']

model = dict(
    backbone=dict(type='mmflatten.HViTTT', arch='small', pooled=True, drop_path_rate=0.3),
    head=dict(in_channels=512),
)

"""BiFormer-STL on ImageNet-1k.

BiFormer, README: 82.7 % top-1, 28.4 M parameters, 4.6 G FLOPs. Not run by this project. Swin-T's
layout with other attentions, and batch norms between the stages. Inferred: drop path, and that it
trains like Swin-T.
"""

_base_ = ['../_base_/recipes/grid_300e_in1k.py']

model = dict(
    backbone=dict(type='mmflatten.BiFormerSTL', arch='tiny', img_size=224, drop_path_rate=0.2),
    head=dict(in_channels=768),
)

"""Twins-SVT-S on ImageNet-1k.

L2ViT, Table 2: 81.7 % top-1, 24 M parameters, 2.9 G FLOPs. Not run by this project. Model:
mmpretrain's. Recipe: Swin's, where the authors' own differs.
"""

_base_ = ['../_base_/recipes/grid_300e_in1k.py']

model = dict(
    backbone=dict(
        type='mmpretrain.SVT',
        arch='small',
        qkv_bias=True,
        norm_after_stage=[False, False, False, True],
        drop_path_rate=0.2,
    ),
    head=dict(in_channels=512),
)

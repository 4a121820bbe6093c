"""Twins-SVT-B on ImageNet-1k.

L2ViT, Table 2: 83.2 % top-1, 56 M parameters, 8.6 G FLOPs. Not run by this project. Model:
mmpretrain's. Recipe: Swin's, where the authors' own differs.
"""

_base_ = ['../_base_/recipes/grid_300e_in1k.py']

model = dict(
    backbone=dict(
        type='mmpretrain.SVT',
        arch='base',
        qkv_bias=True,
        norm_after_stage=[False, False, False, True],
        drop_path_rate=0.3,
    ),
    head=dict(in_channels=768),
)

"""Twins-SVT-L on ImageNet-1k.

L2ViT, Table 2: 83.7 % top-1, 99 M parameters, 15.1 G FLOPs. Not run by this project. Model:
mmpretrain's. Recipe: Swin's, where the authors' own differs.
"""

_base_ = ['../_base_/recipes/grid_300e_in1k.py']

model = dict(
    backbone=dict(
        type='mmpretrain.SVT',
        arch='large',
        qkv_bias=True,
        norm_after_stage=[False, False, False, True],
        drop_path_rate=0.5,
    ),
    head=dict(in_channels=1024),
)

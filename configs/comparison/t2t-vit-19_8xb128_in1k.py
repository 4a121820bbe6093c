"""T2T-ViT-19 on ImageNet-1k.

Focal Transformer, Table 9: 39.2 M parameters. Not run by this project. Model: mmpretrain's. Recipe:
DeiT's, where the authors' own differs. The line of the table is cut off in the copy of the paper
that was read.
"""

_base_ = ['../_base_/recipes/deit_300e_in1k.py']

model = dict(
    backbone=dict(
        type='T2T_ViT',
        embed_dims=448,
        t2t_cfg=dict(token_dims=64, use_performer=False),
        num_layers=19,
        layer_cfgs=dict(num_heads=7, feedforward_channels=1344),
        drop_path_rate=0.1,
    ),
    head=dict(in_channels=448),
)

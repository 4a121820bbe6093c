"""T2T-ViT-24 on ImageNet-1k.

Focal Transformer, Table 9: 82.3 % top-1, 64.1 M parameters, 14.1 G FLOPs. Not run by this project.
Model: mmpretrain's. Recipe: DeiT's, where the authors' own differs.
"""

_base_ = ['../_base_/recipes/deit_300e_in1k.py']

model = dict(
    backbone=dict(
        type='T2T_ViT',
        embed_dims=512,
        t2t_cfg=dict(token_dims=64, use_performer=False),
        num_layers=24,
        layer_cfgs=dict(num_heads=8, feedforward_channels=1536),
        drop_path_rate=0.1,
    ),
    head=dict(in_channels=512),
)

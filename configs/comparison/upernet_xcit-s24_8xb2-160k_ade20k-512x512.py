"""UperNet with XCiT-S24/16 on ADE20K, 160 000 iterations.

L2ViT, Table 5: 46.9 mIoU, 74 M parameters. Not run by this project. Initial weights are random:
name a checkpoint in model.backbone.init_cfg. Four maps of one stride are resized to strides 4 to
32, as BEiT does. Trained like Swin here.
"""

_base_ = ['../_base_/recipes/upernet_160k_ade20k-512x512.py']

model = dict(
    backbone=dict(
        type='mmpretrain.XCiT',
        embed_dims=384,
        depth=24,
        num_heads=8,
        mlp_ratio=4,
        qkv_bias=True,
        layer_scale_init_value=1e-5,
        tokens_norm=True,
        out_type='featmap',
        out_indices=(7, 11, 15, 23),
    ),
    neck=dict(type='Feature2Pyramid', embed_dim=384, rescales=[4, 2, 1, 0.5]),
    decode_head=dict(in_channels=[384, 384, 384, 384]),
    auxiliary_head=dict(in_channels=384),
)

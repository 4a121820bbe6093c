"""XCiT-M24/16 on ImageNet-1k.

L2ViT, Table 2: 84.3 % top-1, 84 M parameters, 16.2 G FLOPs. Not run by this project. Model:
mmpretrain's. Recipe: DeiT's, where the authors' own differs. The accuracy is of a training with a
teacher, which this is not.
"""

_base_ = ['../_base_/recipes/deit_300e_in1k.py']

model = dict(
    backbone=dict(
        type='XCiT',
        embed_dims=512,
        depth=24,
        num_heads=8,
        mlp_ratio=4,
        qkv_bias=True,
        layer_scale_init_value=1e-5,
        tokens_norm=True,
        out_type='cls_token',
    ),
    head=dict(in_channels=512),
)

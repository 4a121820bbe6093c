"""ViT^3-B on ImageNet-1k.

ViT^3, README: 82.6 % top-1. Not run by this project. No class token and no positions, but
a convolution in front of each block. Inferred: it trains like DeiT, with the drop path of
Agent-DeiT, of the same lab.
"""

_base_ = ['../_base_/recipes/deit_300e_in1k.py']

model = dict(
    backbone=dict(
        type='mmflatten.FLattenDeiT',
        arch=dict(embed_dims=768, depth=12, num_heads=12),
        attn_types='L',
        linear_attention=dict(type='TTTAttention'),
        with_cls_token=False,
        with_positions=False,
        cpe_kernel=3,
        out_type='featmap',
        img_size=224,
        drop_path_rate=0.3,
    ),
    neck=dict(_delete_=True, type='GlobalAveragePooling'),
    head=dict(in_channels=768),
)

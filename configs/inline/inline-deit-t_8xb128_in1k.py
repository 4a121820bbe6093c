"""InLine-DeiT-T on ImageNet-1k.

InLine, README: 74.5 % top-1. Not run by this project. Its heads are half as wide as those of
DeiT-T. Inferred: it trains like DeiT; the drop path is the authors'.
"""

_base_ = ['../_base_/recipes/deit_300e_in1k.py']

model = dict(
    backbone=dict(
        type='mmflatten.FLattenDeiT',
        arch=dict(embed_dims=192, depth=12, num_heads=6),
        attn_types='L',
        linear_attention=dict(type='InLineAttention'),
        img_size=224,
        drop_path_rate=0.0,
    ),
    head=dict(in_channels=192),
)

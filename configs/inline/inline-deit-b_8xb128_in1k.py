"""InLine-DeiT-B on ImageNet-1k.

InLine, README: 82.3 % top-1. Not run by this project. It is narrower than DeiT-B and sees
images of 448 x 448. Inferred: it trains like DeiT; the drop path is the authors'.
"""

_base_ = ['../_base_/recipes/deit_300e_in1k-448px.py']

model = dict(
    backbone=dict(
        type='mmflatten.FLattenDeiT',
        arch=dict(embed_dims=384, depth=12, num_heads=12),
        attn_types='L',
        linear_attention=dict(type='InLineAttention'),
        img_size=448,
        drop_path_rate=0.3,
    ),
    head=dict(in_channels=384),
)

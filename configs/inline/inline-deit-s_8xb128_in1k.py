"""InLine-DeiT-S on ImageNet-1k.

InLine, README: 80.2 % top-1. Not run by this project. It is narrower than DeiT-S and sees images of
288 x 288. Inferred: it trains like DeiT; the drop path is the authors'.
"""

_base_ = ['../_base_/recipes/deit_300e_in1k-288px.py']

model = dict(
    backbone=dict(
        type='mmflatten.FLattenDeiT',
        arch=dict(embed_dims=320, depth=12, num_heads=10),
        attn_types='L',
        linear_attention=dict(type='InLineAttention'),
        img_size=288,
        drop_path_rate=0.1,
    ),
    head=dict(in_channels=320),
)

"""PolaFormer-Swin-T on ImageNet-1k.

PolaFormer, README: 82.6 % top-1. Not run by this project. Inferred: it trains like FLatten-Swin-T,
on whose code it builds; the drop path is the authors'.
"""

_base_ = ['../_base_/recipes/flatten-swin_300e_in1k.py']

model = dict(
    backbone=dict(
        type='mmflatten.FLattenSwin',
        arch='tiny',
        attn_types='LLSS',
        linear_attention=dict(type='PolarityAwareLinearAttention'),
        img_size=224,
        drop_path_rate=0.2,
    ),
    head=dict(in_channels=768),
)

"""InLine-Swin-T on ImageNet-1k.

InLine, README: 82.4 % top-1. Not run by this project. Inferred: it trains like FLatten-Swin-T, of
the same lab; the drop path is the authors'.
"""

_base_ = ['../_base_/recipes/flatten-swin_300e_in1k.py']

model = dict(
    backbone=dict(
        type='mmflatten.FLattenSwin',
        arch='tiny',
        attn_types='LLLS',
        linear_attention=dict(type='InLineAttention'),
        img_size=224,
        drop_path_rate=0.2,
    ),
    head=dict(in_channels=768),
)

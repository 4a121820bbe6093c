"""PolaFormer-PVT-T on ImageNet-1k.

PolaFormer, README: 78.8 % top-1. Not run by this project. Inferred: it trains like FLatten-PVT-T,
on whose code it builds.
"""

_base_ = ['../_base_/recipes/flatten-pvt_310e_in1k.py']

# Keys and values are not reduced: (8, 4, 2, 1) is a default of the constructor that no released
# model uses.
model = dict(
    backbone=dict(
        type='mmflatten.FLattenPVT',
        arch='tiny',
        attn_types='LLLL',
        linear_attention=dict(type='PolarityAwareLinearAttention'),
        img_size=224,
        drop_path_rate=0.1,
    ),
    head=dict(in_channels=512),
)

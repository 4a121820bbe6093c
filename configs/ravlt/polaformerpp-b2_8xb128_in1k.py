"""PolaFormer++-B2 on ImageNet-1k.

PolaFormer++, README: 82.8 % top-1. Not run by this project. It is RAVLT-T with another attention
and a wider end.
Inferred: layer scale and drop path are those of RAVLT, and it trains like Swin.
"""

_base_ = ['../_base_/recipes/grid_300e_in1k.py']

model = dict(
    backbone=dict(
        type='mmflatten.RAVLT',
        arch='tiny',
        linear_attention=dict(type='ExponentialPolarityAttention'),
        last_projection=2048,
        drop_path_rate=0.1,
    ),
    head=dict(in_channels=2048),
)

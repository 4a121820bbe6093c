"""PolaFormer++-B4 on ImageNet-1k.

PolaFormer++, README: 85.4 % top-1. Not run by this project. It is RAVLT-B with another attention
and a wider end. Inferred: width and end of this size. Inferred: layer scale and drop path are those
of RAVLT, and it trains like Swin.
"""

_base_ = ['../_base_/recipes/grid_300e_in1k.py']

model = dict(
    backbone=dict(
        type='mmflatten.RAVLT',
        arch='base',
        linear_attention=dict(type='ExponentialPolarityAttention'),
        layer_scale=(1.0, 1.0, 1e-6, 1e-6),
        last_projection=2048,
        drop_path_rate=0.4,
    ),
    head=dict(in_channels=2048),
)

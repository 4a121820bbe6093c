"""PolaFormer++-B5 on ImageNet-1k.

PolaFormer++, README: 85.6 % top-1. Not run by this project. It is RAVLT-L with another attention
and a wider end. Inferred: the widths of this size. Inferred: layer scale and drop path are those of
RAVLT, and it trains like Swin.
"""

_base_ = ['../_base_/recipes/grid_300e_in1k.py']

model = dict(
    backbone=dict(
        type='mmflatten.RAVLT',
        arch='large',
        linear_attention=dict(type='ExponentialPolarityAttention'),
        layer_scale=1e-6,
        last_projection=2560,
        drop_path_rate=0.55,
    ),
    head=dict(in_channels=2560),
)

"""RAVLT-L (RALA) on ImageNet-1k.

RALA, README: 85.8 % top-1. Not run by this project. Inferred: it trains like Swin; the drop path is
the authors'.
"""

_base_ = ['../_base_/recipes/grid_300e_in1k.py']

model = dict(
    backbone=dict(
        type='mmflatten.RAVLT',
        arch='large',
        layer_scale=1e-6,
        last_projection=1024,
        drop_path_rate=0.55,
    ),
    head=dict(in_channels=1024),
)

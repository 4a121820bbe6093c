"""RAVLT-B (RALA) on ImageNet-1k.

RALA, README: 85.5 % top-1. Not run by this project. Inferred: it trains like Swin; the drop path is
the authors'.
"""

_base_ = ['../_base_/recipes/grid_300e_in1k.py']

model = dict(
    backbone=dict(
        type='mmflatten.RAVLT',
        arch='base',
        layer_scale=(1.0, 1.0, 1e-6, 1e-6),
        last_projection=1024,
        drop_path_rate=0.4,
    ),
    head=dict(in_channels=1024),
)

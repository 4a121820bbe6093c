"""RAVLT-T (RALA) on ImageNet-1k.

RALA, README: 82.8 % top-1. Not run by this project. Inferred: it trains like Swin; the drop path is
the authors'.
"""

_base_ = ['../_base_/recipes/grid_300e_in1k.py']

model = dict(
    backbone=dict(type='mmflatten.RAVLT', arch='tiny', last_projection=1024, drop_path_rate=0.1),
    head=dict(in_channels=1024),
)

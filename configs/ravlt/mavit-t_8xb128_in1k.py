"""MAViT-T (MALA) on ImageNet-1k.

MALA, from notes on the paper: 82.9 % top-1, 2.5 G FLOPs. Not run by this project. Inferred: layer
scale and drop path are those of RAVLT, and it trains like Swin.
"""

_base_ = ['../_base_/recipes/grid_300e_in1k.py']

model = dict(
    backbone=dict(
        type='mmflatten.RAVLT',
        arch='tiny',
        linear_attention=dict(type='MagnitudeAwareLinearAttention'),
        last_projection=2048,
        drop_path_rate=0.1,
    ),
    head=dict(in_channels=2048),
)

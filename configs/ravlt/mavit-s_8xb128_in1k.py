"""MAViT-S (MALA) on ImageNet-1k.

MALA, from notes on the paper: 84.7 % top-1, 4.6 G FLOPs. Not run by this project. Inferred: layer
scale and drop path are those of RAVLT, and it trains like Swin.
"""

_base_ = ['../_base_/recipes/grid_300e_in1k.py']

model = dict(
    backbone=dict(
        type='mmflatten.RAVLT',
        arch='small',
        linear_attention=dict(type='MagnitudeAwareLinearAttention'),
        last_projection=2048,
        drop_path_rate=0.15,
    ),
    head=dict(in_channels=2048),
)

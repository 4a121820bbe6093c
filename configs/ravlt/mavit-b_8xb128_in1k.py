"""MAViT-B (MALA) on ImageNet-1k.

MALA, from notes on the paper: 85.7 % top-1, 9.9 G FLOPs. Not run by this project. Inferred: layer
scale and drop path are those of RAVLT, and it trains like Swin.
"""

_base_ = ['../_base_/recipes/grid_300e_in1k.py']

model = dict(
    backbone=dict(
        type='mmflatten.RAVLT',
        arch='base',
        linear_attention=dict(type='MagnitudeAwareLinearAttention'),
        layer_scale=(1.0, 1.0, 1e-6, 1e-6),
        last_projection=2048,
        drop_path_rate=0.4,
    ),
    head=dict(in_channels=2048),
)

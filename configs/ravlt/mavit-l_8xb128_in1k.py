"""MAViT-L (MALA) on ImageNet-1k.

MALA, from notes on the paper: 86.0 % top-1, 16.1 G FLOPs. Not run by this project. Inferred: layer
scale and drop path are those of RAVLT, and it trains like Swin.
"""

_base_ = ['../_base_/recipes/grid_300e_in1k.py']

model = dict(
    backbone=dict(
        type='mmflatten.RAVLT',
        arch='large',
        linear_attention=dict(type='MagnitudeAwareLinearAttention'),
        layer_scale=1e-6,
        last_projection=2560,
        drop_path_rate=0.55,
    ),
    head=dict(in_channels=2560),
)

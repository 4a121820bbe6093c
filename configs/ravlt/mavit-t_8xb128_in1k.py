"""MAViT-T (MALA) on ImageNet-1k.

MALA, from notes on the paper: 82.9 % top-1, 2.5 G FLOPs. Not run by this project. Inferred: layer
scale and drop path are those of RAVLT, and it trains like Swin.
"""

_base_ = [
    '../_base_/models/classifier.py',
    '../_base_/datasets/imagenet_bs128_224.py',
    '../_base_/schedules/imagenet_adamw_300e.py',
    '../_base_/default_runtime.py',
]

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

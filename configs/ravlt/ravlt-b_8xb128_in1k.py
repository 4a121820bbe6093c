"""RAVLT-B (RALA) on ImageNet-1k.

RALA, README: 85.5 % top-1. Not run by this project. Inferred: it trains like Swin; the drop path is
the authors'.
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
        arch='base',
        layer_scale=(1.0, 1.0, 1e-6, 1e-6),
        last_projection=1024,
        drop_path_rate=0.4,
    ),
    head=dict(in_channels=1024),
)

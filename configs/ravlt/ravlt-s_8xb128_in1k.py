"""RAVLT-S (RALA) on ImageNet-1k.

RALA, README: 84.4 % top-1. Not run by this project. Inferred: it trains like Swin; the drop path is
the authors'.
"""

_base_ = [
    '../_base_/models/classifier.py',
    '../_base_/datasets/imagenet_bs128_224.py',
    '../_base_/schedules/imagenet_adamw_300e.py',
    '../_base_/default_runtime.py',
]

model = dict(
    backbone=dict(type='mmflatten.RAVLT', arch='small', last_projection=1024, drop_path_rate=0.15),
    head=dict(in_channels=1024),
)

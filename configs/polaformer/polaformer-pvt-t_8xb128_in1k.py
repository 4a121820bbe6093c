"""PolaFormer-PVT-T on ImageNet-1k.

PolaFormer, README: 78.8 % top-1. Not run by this project. Inferred: it trains like FLatten-PVT-T,
on whose code it builds.
"""

_base_ = [
    '../_base_/models/classifier.py',
    '../_base_/datasets/imagenet_bs128_flatten_224.py',
    '../_base_/schedules/imagenet_adamw_310e_flatten-pvt.py',
    '../_base_/default_runtime.py',
]

# Keys and values are not reduced: (8, 4, 2, 1) is a default of the constructor that no released
# model uses.
model = dict(
    backbone=dict(
        type='mmflatten.FLattenPVT',
        arch='tiny',
        attn_types='LLLL',
        linear_attention=dict(type='PolarityAwareLinearAttention'),
        img_size=224,
        drop_path_rate=0.1,
    ),
    head=dict(in_channels=512),
)

"""SLAB-PVT-T on ImageNet-1k.

SLAB, README: 76.5 % top-1. Not run by this project. Letters and drop path are those of the released
configuration; the training is that of FLatten-PVT-T, on whose code it builds.
"""

_base_ = ['../_base_/recipes/flatten-pvt_310e_in1k.py']

# Every layer norm turns into a batch norm over the first 300 000 steps.
model = dict(
    backbone=dict(
        type='mmflatten.FLattenPVT',
        arch='tiny',
        attn_types='LLLL',
        linear_attention=dict(type='FocusedLinearAttention', focusing_factor=None, feature_floor=0),
        progressive_norm=300000,
        img_size=224,
        drop_path_rate=0.0,
    ),
    head=dict(in_channels=512),
)

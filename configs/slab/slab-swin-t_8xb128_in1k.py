"""SLAB-Swin-T on ImageNet-1k.

SLAB, README: 81.8 % top-1. Not run by this project. Trains like FLatten-Swin-T, on whose code it
builds.
"""

_base_ = ['../_base_/recipes/flatten-swin_300e_in1k.py']

# Every layer norm turns into a batch norm over the first 60 000 steps.
model = dict(
    backbone=dict(
        type='mmflatten.FLattenSwin',
        arch='tiny',
        attn_types='LLSS',
        linear_attention=dict(type='FocusedLinearAttention', focusing_factor=None, feature_floor=0),
        progressive_norm=60000,
        img_size=224,
        drop_path_rate=0.2,
    ),
    head=dict(in_channels=768),
)

"""SLAB-CSwin-T on ImageNet-1k.

SLAB, README: 82.8 % top-1. Not run by this project. Letters, depths and drop path are those of
the released configuration; the training is that of FLatten-CSwin-T, on whose code it builds.
"""

_base_ = ['../_base_/recipes/flatten-cswin_310e_in1k.py']

# Every layer norm turns into a batch norm over the first 120 000 steps.
model = dict(
    backbone=dict(
        type='mmflatten.FLattenCSwin',
        arch='tiny',
        attn_types='LLSS',
        linear_attention=dict(type='FocusedLinearAttention', focusing_factor=None, feature_floor=0),
        progressive_norm=120000,
        img_size=224,
        drop_path_rate=0.1,
    ),
    head=dict(in_channels=512),
)

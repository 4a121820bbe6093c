"""Panoptic FPN with a tiny FLatten-Swin on the panoptic digit scenes, from random weights.

Not run to the end yet.
"""

_base_ = ['../_base_/recipes/panoptic-fpn_digits.py']

model = dict(
    backbone=dict(
        type='mmflatten.FLattenSwin',
        arch=dict(embed_dims=32, depths=(1, 1, 2, 1), num_heads=(2, 4, 8, 16)),
        attn_types='LLSS',
        img_size=160,
        softmax_window=5,
        drop_path_rate=0.0,
    ),
    neck=dict(in_channels=[32, 64, 128, 256]),
)

"""Panoptic FPN with a tiny FLatten-Swin on the panoptic digit scenes, from random weights.

The six epochs have not been run. One epoch, with the schedule shortened to it, reached PQ 11.0
(things 10.7, stuff 11.5) on the 200 held-out scenes.
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

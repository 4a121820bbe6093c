"""Semantic FPN with a tiny FLatten-Swin on the garment scenes.

Run by this project in shorter trainings alone: lab/docs/second_study.md.
"""

_base_ = [
    '../../../configs/_base_/models/semantic-fpn_nano.py',
    '../_base_/datasets/garments_seg.py',
    '../../../configs/_base_/schedules/digits_2k.py',
    '../../../configs/_base_/default_runtime.py',
]
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

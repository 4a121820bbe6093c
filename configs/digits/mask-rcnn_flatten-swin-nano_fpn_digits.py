"""Mask R-CNN with a tiny FLatten-Swin on the digit scenes, from random weights on two CPU cores.

`make demo` trains it. Run by this project: 0.613 box mAP and 0.608 mask mAP on the 200 held-out
scenes (0.463 and 0.613 box mAP after 2 and 4 epochs) after 208 s on two cores of an AMD EPYC.
"""

_base_ = ['../_base_/recipes/mask-rcnn_digits.py']

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

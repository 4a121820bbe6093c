"""DINO with a tiny FLatten-Swin on the digit scenes, from random weights on a CPU.

Run by this project: 0.124 box mAP on the 200 held-out scenes after 2 of 6 epochs (500 iterations),
where Mask R-CNN has 0.474. The run was stopped there.
"""

_base_ = ['../_base_/recipes/dino-4scale_digits.py']
model = dict(
    backbone=dict(
        type='mmflatten.FLattenSwin',
        arch=dict(embed_dims=32, depths=(1, 1, 2, 1), num_heads=(2, 4, 8, 16)),
        attn_types='LLSS',
        img_size=160,
        softmax_window=5,
        drop_path_rate=0.0,
    ),
    neck=dict(in_channels=[64, 128, 256]),
)

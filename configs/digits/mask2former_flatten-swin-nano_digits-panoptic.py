"""Mask2Former for panoptic segmentation with a tiny FLatten-Swin on the digit scenes, from random
weights on a CPU. Not run by this project beyond one iteration.
"""

_base_ = ['../_base_/recipes/mask2former_digits-panoptic.py']

model = dict(
    backbone=dict(
        type='mmflatten.FLattenSwin',
        arch=dict(embed_dims=32, depths=(1, 1, 2, 1), num_heads=(2, 4, 8, 16)),
        attn_types='LLSS',
        img_size=160,
        softmax_window=5,
        drop_path_rate=0.0,
    ),
    panoptic_head=dict(in_channels=[32, 64, 128, 256]),
)

"""Panoptic segmentation by EncoderMaskHead behind a tiny FLatten-Swin on the digit scenes, from
random weights.

Not run by this project beyond a few test iterations. Masked attention is annealed away over the
3750 steps.
"""

_base_ = ['../_base_/recipes/encoder-mask_digits-panoptic.py']

model = dict(
    backbone=dict(
        type='mmflatten.FLattenSwin',
        arch=dict(embed_dims=32, depths=(1, 1, 2, 1), num_heads=(2, 4, 8, 16)),
        attn_types='LLSS',
        img_size=160,
        softmax_window=5,
        drop_path_rate=0.0,
    ),
    panoptic_head=dict(in_channels=[32, 64, 128, 256], anneal_steps=3750),
)

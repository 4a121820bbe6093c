"""Semantic segmentation by EncoderMaskHead in the last three blocks of a tiny ViT on the digit
scenes, from random weights.

Not run by this project beyond 150 iterations. Masked attention is annealed away over the 2000
iterations.
"""

_base_ = ['../_base_/recipes/encoder-mask_segmentor_digits.py']

model = dict(
    backbone=dict(
        type='mmflatten.ViT',
        arch=dict(embed_dims=96, depth=5, num_heads=4, mlp_ratio=2.0, patch_size=8, img_size=160),
        with_cls_token=False,
        out_type='featmap',
    ),
    decode_head=dict(in_channels=[96], joint=True, num_upscales=1, anneal_steps=2000),
)

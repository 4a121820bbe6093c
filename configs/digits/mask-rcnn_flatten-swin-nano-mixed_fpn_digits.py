"""Mask R-CNN with a tiny FLatten-Swin of mixed attentions on the digit scenes.

Hydra attention in the first stage, focused linear attention in the second, softmax in the others:
every letter of `attn_types` but S names its mixer. Not run by this project beyond a few test
iterations.
"""

_base_ = ['../_base_/recipes/mask-rcnn_digits.py']

model = dict(
    backbone=dict(
        type='mmflatten.FLattenSwin',
        arch=dict(embed_dims=32, depths=(1, 1, 2, 1), num_heads=(2, 4, 8, 16)),
        attn_types='HLSS',
        mixers=dict(H=dict(type='HydraAttention'), L=dict(type='FocusedLinearAttention')),
        img_size=160,
        softmax_window=5,
        drop_path_rate=0.0,
    ),
    neck=dict(in_channels=[32, 64, 128, 256]),
)

"""Classifier with a tiny FLatten-Swin of mixed attentions on single digits cut from the digit
scenes.

Hydra attention in the first stage, focused linear attention in the second, softmax in the others:
every letter of `attn_types` but S names its mixer. Not run by this project beyond a few test
iterations.
"""

_base_ = ['../_base_/recipes/classifier_digits.py']

model = dict(
    backbone=dict(
        type='mmflatten.FLattenSwin',
        arch=dict(embed_dims=32, depths=(1, 1, 2, 1), num_heads=(2, 4, 8, 16)),
        attn_types='HLSS',
        mixers=dict(H=dict(type='HydraAttention'), L=dict(type='FocusedLinearAttention')),
        img_size=64,
        softmax_window=4,
        drop_path_rate=0.0,
    ),
    head=dict(in_channels=256),
)

"""RALA-DeiT-T on ImageNet-1k.

RALA, from notes on the paper: 75.1 % top-1. Not run by this project. The class token stays; it is
not rotated.
Inferred: it trains like DeiT.
"""

_base_ = ['../_base_/recipes/deit_300e_in1k.py']

model = dict(
    backbone=dict(
        type='mmflatten.FLattenDeiT',
        arch='tiny',
        attn_types='L',
        linear_attention=dict(type='RankAugmentedLinearAttention'),
        img_size=224,
        drop_path_rate=0.1,
    ),
    head=dict(in_channels=192),
)

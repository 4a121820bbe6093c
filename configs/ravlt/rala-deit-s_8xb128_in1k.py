"""RALA-DeiT-S on ImageNet-1k.

MHLA, in the paper: 80.4 % top-1. Not run by this project. The class token stays; it is not rotated.
Inferred: it trains like DeiT.
"""

_base_ = ['../_base_/recipes/deit_300e_in1k.py']

model = dict(
    backbone=dict(
        type='mmflatten.FLattenDeiT',
        arch='small',
        attn_types='L',
        linear_attention=dict(type='RankAugmentedLinearAttention'),
        img_size=224,
        drop_path_rate=0.1,
    ),
    head=dict(in_channels=384),
)

"""SLAB-DeiT-S on ImageNet-1k.

SLAB, README: 80.0 % top-1. Not run by this project. Every layer norm turns into a batch norm over the first 300 000
steps. Inferred: all blocks are linear, the class token stays, and it trains like DeiT.
"""
_base_ = ['../_base_/recipes/deit_300e_in1k.py']

model = dict(
    backbone=dict(
        type='mmflatten.FLattenDeiT',
        arch='small',
        attn_types='L',
        linear_attention=dict(type='FocusedLinearAttention', focusing_factor=None, feature_floor=0),
        progressive_norm=300000,
        img_size=224,
        drop_path_rate=0.1),
    head=dict(in_channels=384))

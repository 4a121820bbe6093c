"""SLAB-DeiT-T on ImageNet-1k.

SLAB, README: 74.3 % top-1. Not run by this project. No class token; the head receives the mean of
the normed tokens. Drop path and the training of Swin, not DeiT, are those of the released
configuration.
"""

_base_ = ['../_base_/recipes/flatten-swin_300e_in1k.py']

# Every layer norm turns into a batch norm over the first 60 000 steps.
model = dict(
    backbone=dict(
        type='mmflatten.FLattenDeiT',
        arch='tiny',
        attn_types='L',
        linear_attention=dict(type='FocusedLinearAttention', focusing_factor=None, feature_floor=0),
        progressive_norm=60000,
        with_cls_token=False,
        out_type='featmap',
        out_indices=(11,),
        img_size=224,
        drop_path_rate=0.0,
    ),
    head=dict(in_channels=192),
)

"""CA-Swin-T on ImageNet-1k.

Circulant Attention, from notes on the paper: 82.2 % top-1. Not run by this project. Inferred: it
trains like FLatten-Swin-T, of the same lab.
"""

_base_ = ['../_base_/recipes/flatten-swin_300e_in1k.py']

# Circulant attention over the whole map in the first two stages.
model = dict(
    backbone=dict(
        type='mmflatten.FLattenSwin',
        arch='tiny',
        attn_types='LLSS',
        linear_attention=dict(type='CirculantAttention', qkv_bias=False),
        img_size=224,
        drop_path_rate=0.2,
    ),
    head=dict(in_channels=768),
)

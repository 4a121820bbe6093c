"""CA-PVT-T on ImageNet-1k.

Circulant Attention, from notes on the paper: 78.1 % top-1. Not run by this project. Inferred: the
other two stages are PVT's without its class token, and it trains like FLatten-PVT-T, of the same
lab.
"""

_base_ = ['../_base_/recipes/flatten-pvt_310e_in1k.py']

# Circulant attention over the whole map in the first two stages.
model = dict(
    backbone=dict(
        type='mmflatten.FLattenPVT',
        arch='tiny',
        attn_types='LLSS',
        linear_attention=dict(type='CirculantAttention', qkv_bias=False),
        img_size=224,
        drop_path_rate=0.1,
    ),
    head=dict(in_channels=512),
)

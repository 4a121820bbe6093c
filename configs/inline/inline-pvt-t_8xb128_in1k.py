"""InLine-PVT-T on ImageNet-1k.

InLine, README: 78.2 % top-1. Not run by this project. Inferred: it trains like FLatten-PVT-T, of
the same lab; the drop path is the authors'.
"""

_base_ = ['../_base_/recipes/flatten-pvt_310e_in1k.py']

# All heads are 32 channels wide: twice as many as in PVT. No spatial reduction.
model = dict(
    backbone=dict(
        type='mmflatten.FLattenPVT',
        arch=dict(
            embed_dims=(64, 128, 320, 512),
            depths=(2, 2, 2, 2),
            num_heads=(2, 4, 10, 16),
            mlp_ratios=(8.0, 8.0, 4.0, 4.0),
        ),
        attn_types='LLLL',
        linear_attention=dict(type='InLineAttention'),
        img_size=224,
        drop_path_rate=0.1,
    ),
    head=dict(in_channels=512),
)

"""Swin-T with Hydra attention.

FLatten Transformer, Table 3b: 80.7 % top-1, 29 M parameters, 4.5 G FLOPs (FLatten-Swin-T: 82.1).
Not run by this project. The paper does not say in which stages; here in the first two, over the
whole map, as in FLatten-Swin-T.
"""

_base_ = ['../_base_/recipes/flatten-swin_300e_in1k.py']

model = dict(
    backbone=dict(
        type='mmflatten.FLattenSwin',
        arch='tiny',
        attn_types='LLSS',
        linear_attention=dict(type='HydraAttention'),
        img_size=224,
        drop_path_rate=0.2,
    ),
    head=dict(in_channels=768),
)

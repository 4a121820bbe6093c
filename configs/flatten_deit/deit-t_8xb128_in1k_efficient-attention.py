"""DeiT-T with efficient attention in all blocks.

FLatten Transformer, Table 3a: 70.2 % top-1, 5.7 M parameters, 1.1 G FLOPs (FLatten-DeiT-T: 74.1).
Not run by this project.
"""

_base_ = ['../_base_/recipes/deit_300e_in1k.py']

model = dict(
    backbone=dict(
        type='mmflatten.FLattenDeiT',
        arch='tiny',
        attn_types='L',
        linear_attention=dict(type='EfficientAttention'),
        img_size=224,
        drop_path_rate=0.1,
    ),
    head=dict(in_channels=192),
)

"""DeiT-T with linear angular attention (Castling-ViT) in all blocks.

FLatten Transformer, Table 3a: 70.8 % top-1, 5.7 M parameters, 1.1 G FLOPs (FLatten-DeiT-T: 74.1).
Not run by this project. This is the attention's linear part; its sparse auxiliary branch, which
training drives to zero, is left out.
"""

_base_ = ['../_base_/recipes/deit_300e_in1k.py']

model = dict(
    backbone=dict(
        type='mmflatten.FLattenDeiT',
        arch='tiny',
        attn_types='L',
        linear_attention=dict(type='LinearAngularAttention'),
        img_size=224,
        drop_path_rate=0.1,
    ),
    head=dict(in_channels=192),
)

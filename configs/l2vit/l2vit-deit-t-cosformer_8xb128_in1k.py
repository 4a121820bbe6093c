"""DeiT-T with cosFormer's attention.

L2ViT, Table 8: 67.7 % top-1, 5.7 M parameters, 1.4 G FLOPs. Not run by this project.
"""

_base_ = ['../_base_/recipes/deit_300e_in1k.py']

model = dict(
    backbone=dict(
        type='mmflatten.FLattenDeiT',
        arch='tiny',
        attn_types='L',
        linear_attention=dict(type='CosFormerAttention'),
        img_size=224,
        drop_path_rate=0.1,
    ),
    head=dict(in_channels=192),
)

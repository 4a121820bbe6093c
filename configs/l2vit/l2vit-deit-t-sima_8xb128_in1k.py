"""DeiT-T with SimA, linear attention whose queries and keys are divided by their L1 norms.

L2ViT, Tables 1 ("L1 norm") and 8: 68.6 % top-1, 5.7 M parameters, 1.3 G FLOPs. Not run by this
project.
"""

_base_ = ['../_base_/recipes/deit_300e_in1k.py']

model = dict(
    backbone=dict(
        type='mmflatten.FLattenDeiT',
        arch='tiny',
        attn_types='L',
        linear_attention=dict(type='SimAAttention'),
        img_size=224,
        drop_path_rate=0.1,
    ),
    head=dict(in_channels=192),
)

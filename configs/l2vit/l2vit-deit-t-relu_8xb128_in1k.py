"""DeiT-T with linear attention, ReLU as its feature map.

L2ViT, Tables 1 and 8: 69.3 % top-1, 5.7 M parameters, 1.3 G FLOPs. Not run by this project.
"""

_base_ = ['../_base_/recipes/deit_300e_in1k.py']

# The denominator has the lower bound of 100 that the paper gives "in all models" (sec. 7).
model = dict(
    backbone=dict(
        type='mmflatten.FLattenDeiT',
        arch='tiny',
        attn_types='L',
        linear_attention=dict(type='LinearAttention', feature_map='relu', min_denominator=100.0),
        img_size=224,
        drop_path_rate=0.1,
    ),
    head=dict(in_channels=192),
)

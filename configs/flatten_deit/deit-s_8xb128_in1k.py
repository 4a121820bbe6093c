"""DeiT-S on ImageNet-1k.

Focal Transformer, Tables 2 and 9 (from DeiT's paper): 79.9 % top-1, 22.1 M (Table 9: 22.0), 4.6 G
FLOPs. Not run by this project. Trained like DeiT-T.
"""

_base_ = ['../_base_/recipes/deit_300e_in1k.py']

model = dict(
    backbone=dict(
        type='mmflatten.FLattenDeiT', arch='small', attn_types='S', img_size=224, drop_path_rate=0.1
    ),
    head=dict(in_channels=384),
)

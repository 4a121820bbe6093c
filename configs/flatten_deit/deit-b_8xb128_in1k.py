"""DeiT-B on ImageNet-1k.

Focal Transformer, Tables 2 and 9 (from DeiT's paper): 81.8 % top-1, 86.6 M, 17.5 G FLOPs. Not run
by this project. Trained like DeiT-T.
"""

_base_ = ['../_base_/recipes/deit_300e_in1k.py']

model = dict(
    backbone=dict(
        type='mmflatten.FLattenDeiT', arch='base', attn_types='S', img_size=224, drop_path_rate=0.1
    ),
    head=dict(in_channels=768),
)

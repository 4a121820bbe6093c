"""DeiT-T on ImageNet-1k, the baseline of FLatten-DeiT-T.

FLatten Transformer, Table 8 (from DeiT's paper): 72.2 % top-1, 5.7 M parameters, 1.2 G FLOPs. Not
run by this project. Trained like FLatten-DeiT-T.
"""

_base_ = ['../_base_/recipes/deit_300e_in1k.py']

model = dict(
    backbone=dict(
        type='mmflatten.FLattenDeiT', arch='tiny', attn_types='S', img_size=224, drop_path_rate=0.1
    ),
    head=dict(in_channels=192),
)

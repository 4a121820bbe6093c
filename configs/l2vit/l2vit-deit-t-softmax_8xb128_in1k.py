"""DeiT-T with its softmax attention, to which L2ViT compares linear attentions.

L2ViT, Tables 1, 8 and 11: 72.2 % top-1 (DeiT's; 72.5 when L2ViT's authors train it), 5.7 M
parameters, 1.3 G FLOPs. Not run by this project. L2ViT gives no recipe for its DeiTs; this is
DeiT's own.
"""

_base_ = ['../_base_/recipes/deit_300e_in1k.py']

model = dict(
    backbone=dict(
        type='mmflatten.FLattenDeiT', arch='tiny', attn_types='S', img_size=224, drop_path_rate=0.1
    ),
    head=dict(in_channels=192),
)

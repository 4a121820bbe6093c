"""ViT-L/16 on ImageNet-1k.

Focal Transformer, Table 9: 76.5 % top-1, 307.0 M parameters, 190.7 G FLOPs. Not run by this
project. Model: mmpretrain's. Recipe: DeiT's, where the authors' own differs. The accuracy and the
FLOPs are at 384 x 384.
"""

_base_ = ['../_base_/recipes/deit_300e_in1k.py']

model = dict(
    backbone=dict(type='VisionTransformer', arch='l', drop_rate=0.1), head=dict(in_channels=1024)
)

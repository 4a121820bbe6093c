"""ViT-B/16 on ImageNet-1k.

Focal Transformer, Table 2: 77.9 % top-1, 86.6 M parameters, 17.6 G FLOPs; Focal Transformer, Table
9: 77.9 % top-1, 86.6 M parameters, 17.6 G FLOPs. Not run by this project. Model: mmpretrain's.
Recipe: DeiT's, where the authors' own differs. The accuracy is at 384 x 384.
"""

_base_ = ['../_base_/recipes/deit_300e_in1k.py']

model = dict(
    backbone=dict(type='VisionTransformer', arch='b', drop_rate=0.1), head=dict(in_channels=768)
)

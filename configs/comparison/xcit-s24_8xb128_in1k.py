"""XCiT-S24/16 on ImageNet-1k.

L2ViT, Table 2: 83.9 % top-1, 48 M parameters, 9.1 G FLOPs. Not run by this project. Model: mmpretrain's. Recipe:
DeiT's, where the authors' own differs. The accuracy is of a training with a teacher, which this is not.
"""
_base_ = ['./xcit-m24_8xb128_in1k.py']

model = dict(backbone=dict(embed_dims=384), head=dict(in_channels=384))

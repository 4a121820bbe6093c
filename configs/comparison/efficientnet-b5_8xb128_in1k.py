"""EfficientNet-B5 on ImageNet-1k.

L2ViT, Table 2: 83.6 % top-1, 30 M parameters, 9.9 G FLOPs. Not run by this project. Model:
mmpretrain's. Recipe: Swin's, where the authors' own differs. It trains at 224; the figures are at
456, for which the data need that size.
"""

_base_ = ['../_base_/recipes/grid_300e_in1k.py']

model = dict(
    backbone=dict(type='EfficientNet', arch='b5', out_indices=(6,)), head=dict(in_channels=2048)
)

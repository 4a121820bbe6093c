"""EfficientNet-B6 on ImageNet-1k.

L2ViT, Table 2: 84.0 % top-1, 43 M parameters, 19.0 G FLOPs. Not run by this project. Model:
mmpretrain's. Recipe: Swin's, where the authors' own differs. It trains at 224; the figures are at
528, for which the data need that size.
"""

_base_ = ['../_base_/recipes/grid_300e_in1k.py']

model = dict(
    backbone=dict(type='EfficientNet', arch='b6', out_indices=(6,)), head=dict(in_channels=2304)
)

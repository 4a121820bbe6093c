"""ConvNeXt-T on ImageNet-1k.

L2ViT, Table 2: 82.1 % top-1, 28 M parameters, 4.5 G FLOPs. Not run by this project. Model:
mmpretrain's. Recipe: Swin's, where the authors' own differs.
"""

_base_ = ['../_base_/recipes/grid_300e_in1k.py']

model = dict(
    backbone=dict(type='ConvNeXt', arch='tiny', drop_path_rate=0.1),
    neck=None,
    head=dict(in_channels=768),
)

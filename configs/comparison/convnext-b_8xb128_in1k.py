"""ConvNeXt-B on ImageNet-1k.

L2ViT, Table 2: 83.8 % top-1, 89 M parameters, 15.4 G FLOPs. Not run by this project. Model:
mmpretrain's. Recipe: Swin's, where the authors' own differs. The table calls it ConvNeXt-T.
"""

_base_ = ['../_base_/recipes/grid_300e_in1k.py']

model = dict(
    backbone=dict(type='ConvNeXt', arch='base', drop_path_rate=0.5),
    neck=None,
    head=dict(in_channels=1024),
)

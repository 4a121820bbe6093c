"""DaViT-B on ImageNet-1k.

L2ViT, Table 2: 83.9 % top-1, 88 M parameters, 15.5 G FLOPs. Not run by this project. Model:
mmpretrain's. Recipe: Swin's, where the authors' own differs.
"""

_base_ = ['../_base_/recipes/grid_300e_in1k.py']

model = dict(backbone=dict(type='DaViT', arch='b', drop_path_rate=0.4), head=dict(in_channels=1024))

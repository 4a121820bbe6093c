"""DaViT-S on ImageNet-1k.

L2ViT, Table 2: 83.8 % top-1, 50 M parameters, 8.8 G FLOPs. Not run by this project. Model:
mmpretrain's. Recipe: Swin's, where the authors' own differs.
"""

_base_ = ['../_base_/recipes/grid_300e_in1k.py']

model = dict(backbone=dict(type='DaViT', arch='s', drop_path_rate=0.2), head=dict(in_channels=768))

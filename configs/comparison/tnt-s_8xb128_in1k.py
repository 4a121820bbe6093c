"""TNT-S on ImageNet-1k.

Focal Transformer, Table 9: 81.3 % top-1, 23.8 M parameters, 5.2 G FLOPs. Not run by this project.
Model: mmpretrain's.
Recipe: DeiT's, where the authors' own differs.
"""

_base_ = ['../_base_/recipes/deit_300e_in1k.py']

model = dict(backbone=dict(type='TNT', arch='s', drop_path_rate=0.1), head=dict(in_channels=384))

"""TNT-B on ImageNet-1k.

Focal Transformer, Table 9: 82.8 % top-1, 65.6 M parameters, 14.1 G FLOPs. Not run by this project.
Model: mmpretrain's. Recipe: DeiT's, where the authors' own differs.
"""

_base_ = ['../_base_/recipes/deit_300e_in1k.py']

model = dict(backbone=dict(type='TNT', arch='b', drop_path_rate=0.1), head=dict(in_channels=640))

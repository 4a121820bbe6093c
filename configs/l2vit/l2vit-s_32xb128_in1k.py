"""L2ViT-S on ImageNet-1k.

L2ViT, Table 2: 84.1 % top-1, 50 M parameters, 9.0 G FLOPs. Not run by this project. Recipe: the
paper's Table 9.
"""

_base_ = ['./l2vit-t_32xb128_in1k.py']

model = dict(backbone=dict(arch='small', drop_path_rate=0.3))

"""L2ViT-B on ImageNet-1k.

L2ViT, Table 2: 84.4 % top-1 (the released weights, by the authors' README: 84.384), 89 M
parameters, 15.9 G FLOPs. Not run by this project. Recipe: the paper's Table 9.
"""

_base_ = ['./l2vit-t_32xb128_in1k.py']

# The command of the authors' README has a drop path of 0.3 instead.
model = dict(backbone=dict(arch='base', drop_path_rate=0.4), head=dict(in_channels=1024))

"""Focal-S on ImageNet-1k.

Focal Transformer, Table 2: 83.5 % top-1 (the authors' README: 83.6), 51.1 M parameters, 9.1 G FLOPs. Not run by this
project.
"""
_base_ = ['./focal-t_8xb128_in1k.py']

model = dict(backbone=dict(arch='small', drop_path_rate=0.3))

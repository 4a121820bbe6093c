"""Swin-S on ImageNet-1k, the baseline of FLatten-Swin-S.

FLatten Transformer, Table 8 (from Swin's paper): 83.0 % top-1, 50 M parameters, 8.7 G FLOPs. Not
run by this project.
"""

_base_ = ['./swin-t_8xb128_in1k.py']

model = dict(backbone=dict(arch='small', drop_path_rate=0.3))

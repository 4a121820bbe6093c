"""FLatten-Swin-S on ImageNet-1k.

FLatten Transformer, Table 8: 83.5 % top-1, 51 M parameters, 8.7 G FLOPs. Not run by this project.
"""

_base_ = ['./flatten-swin-t_8xb128_in1k.py']

model = dict(backbone=dict(arch='small', drop_path_rate=0.3))

"""FLatten-PVTv2-B1 on ImageNet-1k.

FLatten Transformer, Table 8: 79.5 % top-1, 12.9 M parameters, 2.2 G FLOPs. Not run by this project.
"""

_base_ = ['./flatten-pvtv2-b0_8xb128_in1k.py']

model = dict(backbone=dict(arch='b1'), head=dict(in_channels=512))

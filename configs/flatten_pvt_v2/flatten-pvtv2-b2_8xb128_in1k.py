"""FLatten-PVTv2-B2 on ImageNet-1k.

FLatten Transformer, Table 8: 82.5 % top-1, 22.6 M parameters, 4.3 G FLOPs. Not run by this project.
"""

_base_ = ['./flatten-pvtv2-b0_8xb128_in1k.py']

model = dict(backbone=dict(arch='b2'), head=dict(in_channels=512))

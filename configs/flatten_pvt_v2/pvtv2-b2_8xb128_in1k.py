"""PVTv2-B2 on ImageNet-1k, the baseline of FLatten-PVTv2-B2.

FLatten Transformer, Table 8 (from PVTv2's paper): 82.0 % top-1, 25.4 M parameters, 4.0 G FLOPs.
Not run by this project.
"""
_base_ = ['./pvtv2-b0_8xb128_in1k.py']

model = dict(backbone=dict(arch='b2'), head=dict(in_channels=512))

"""PVTv2-B1 on ImageNet-1k, the baseline of FLatten-PVTv2-B1.

FLatten Transformer, Table 8 (from PVTv2's paper): 78.7 % top-1, 13.1 M parameters, 2.1 G FLOPs.
Not run by this project.
"""
_base_ = ['./pvtv2-b0_8xb128_in1k.py']

model = dict(backbone=dict(arch='b1'), head=dict(in_channels=512))

"""PVTv2-B3 on ImageNet-1k, the baseline of FLatten-PVTv2-B3.

FLatten Transformer, Table 8 (from PVTv2's paper): 83.2 % top-1, 45.2 M parameters, 6.9 G FLOPs.
Not run by this project.
"""
_base_ = ['./pvtv2-b0_8xb128_in1k.py']

model = dict(backbone=dict(arch='b3', drop_path_rate=0.3), head=dict(in_channels=512))

optim_wrapper = dict(clip_grad=dict(max_norm=1.0))

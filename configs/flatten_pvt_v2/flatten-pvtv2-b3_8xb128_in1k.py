"""FLatten-PVTv2-B3 on ImageNet-1k.

FLatten Transformer, Table 8: 83.7 % top-1, 38.3 M parameters, 7.3 G FLOPs. Not run by this project.
"""

_base_ = ['./flatten-pvtv2-b0_8xb128_in1k.py']

model = dict(backbone=dict(arch='b3', drop_path_rate=0.3), head=dict(in_channels=512))

optim_wrapper = dict(clip_grad=dict(max_norm=1.0))

"""PVTv2-B0 on ImageNet-1k, the baseline of FLatten-PVTv2-B0.

FLatten Transformer, Table 8 (from PVTv2's paper): 70.5 % top-1, 3.4 M parameters, 0.6 G FLOPs.
Not run by this project.
Trained like FLatten-PVTv2-B0. Evaluated like PVTv2's own code, which keeps the aspect ratio where FLatten's squeezes.
"""
_base_ = [
    '../_base_/models/classifier.py', '../_base_/datasets/imagenet_bs128_224.py',
    '../_base_/schedules/imagenet_adamw_310e_pvt.py', '../_base_/default_runtime.py'
]

model = dict(
    backbone=dict(type='mmflatten.FLattenPVTv2', arch='b0', attn_types='SSSS', img_size=224, drop_path_rate=0.1),
    head=dict(in_channels=256))

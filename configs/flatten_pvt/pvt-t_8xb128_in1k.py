"""PVT-T on ImageNet-1k, the baseline of FLatten-PVT-T.

FLatten Transformer, Table 8 (from PVT's paper): 75.1 % top-1, 13.2 M parameters, 1.9 G FLOPs.
Not run by this project.
Trained like FLatten-PVT-T. Evaluated like PVT's own code, which keeps the aspect ratio where FLatten's squeezes.
"""
_base_ = [
    '../_base_/models/classifier.py', '../_base_/datasets/imagenet_bs128_224.py',
    '../_base_/schedules/imagenet_adamw_310e_pvt.py', '../_base_/default_runtime.py'
]

model = dict(
    backbone=dict(type='mmflatten.FLattenPVT', arch='tiny', attn_types='SSSS', img_size=224, drop_path_rate=0.1),
    head=dict(in_channels=512))

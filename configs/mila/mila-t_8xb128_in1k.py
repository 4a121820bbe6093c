"""MILA-T (MLLA) on ImageNet-1k.

MILA, README: 83.5 % top-1, 25 M parameters, 4.2 G FLOPs. Not run by this project. The authors train with MESA, whose
second loss compares with the averaged weights (weight 1); that is left out here. Drop path and images per GPU are the
authors'; inferred: 8 GPUs, and the rest as Swin.
"""
_base_ = [
    '../_base_/models/classifier.py', '../_base_/datasets/imagenet_bs128_224.py',
    '../_base_/schedules/imagenet_adamw_300e.py', '../_base_/default_runtime.py'
]

model = dict(backbone=dict(type='mmflatten.MLLA', arch='tiny', drop_path_rate=0.2), head=dict(in_channels=512))

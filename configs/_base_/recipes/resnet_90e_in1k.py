"""Residual networks on ImageNet-1k, 90 epochs of SGD: torchvision's reference training, without
Mixup and smoothing.

A config adds the backbone.
"""

_base_ = [
    '../models/classifier.py',
    '../datasets/imagenet_bs32_resnet_224.py',
    '../schedules/imagenet_sgd_90e.py',
    '../default_runtime.py',
]

model = dict(
    backbone=dict(norm_eval=False),
    head=dict(in_channels=2048, loss=dict(label_smooth_val=0.0)),
    train_cfg=None,
)

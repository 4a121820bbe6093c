"""Swin's training on ImageNet-1k at 288 x 288, 300 epochs on a total batch of 512.

A config adds the backbone and `head.in_channels`.
"""

_base_ = [
    '../models/classifier.py',
    '../datasets/imagenet_bs64_288.py',
    '../schedules/imagenet_adamw_300e.py',
    '../default_runtime.py',
]
optim_wrapper = dict(optimizer=dict(lr=5e-4 * 512 / 512))
auto_scale_lr = dict(base_batch_size=512)

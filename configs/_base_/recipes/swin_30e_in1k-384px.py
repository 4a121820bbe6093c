"""Swin's fine-tuning on ImageNet-1k at 384 x 384, 30 epochs on a total batch of 256.

A config adds the backbone, `head.in_channels` and `load_from`, a checkpoint at 224 x 224 or of
ImageNet-22k.
"""

_base_ = [
    '../models/classifier.py',
    '../datasets/imagenet_bs32_384.py',
    '../schedules/imagenet_adamw_30e_384.py',
    '../default_runtime.py',
]

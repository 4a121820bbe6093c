"""FLatten-Swin's training on ImageNet-1k, 300 epochs: Swin's, evaluated on images squeezed to a
square.

A config adds the backbone and `head.in_channels`.
"""

_base_ = [
    '../models/classifier.py',
    '../datasets/imagenet_bs128_flatten_224.py',
    '../schedules/imagenet_adamw_300e.py',
    '../default_runtime.py',
]

"""FLatten-PVT's and FLatten-PVTv2's training on ImageNet-1k, 310 epochs on a total batch of 1024,
evaluated on images squeezed to a square.

A config adds the backbone and `head.in_channels`.
"""

_base_ = [
    '../models/classifier.py',
    '../datasets/imagenet_bs128_flatten_224.py',
    '../schedules/imagenet_adamw_310e_flatten-pvt.py',
    '../default_runtime.py',
]

"""L2ViT's training on ImageNet-1k, 300 epochs on a total batch of 4096, with averaged weights.

A config adds the backbone and `head.in_channels`.
"""

_base_ = [
    '../models/classifier.py',
    '../datasets/imagenet_bs128_224.py',
    '../schedules/l2vit_in1k_300e.py',
    '../default_runtime.py',
]

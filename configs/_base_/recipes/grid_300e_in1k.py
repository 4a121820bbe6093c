"""Classifiers whose last map is pooled, 300 epochs: Swin's training, for models that papers compare
with Swin's.

A config adds the backbone and `head.in_channels`.
"""

_base_ = [
    '../models/classifier.py',
    '../datasets/imagenet_bs128_224.py',
    '../schedules/imagenet_adamw_300e.py',
    '../default_runtime.py',
]

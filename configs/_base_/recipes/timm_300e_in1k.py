"""Classifiers of timm, 300 epochs: Swin's training, for models that papers compare with Swin's.

A config adds `model_name` and other arguments of `timm.create_model`.
"""

_base_ = [
    '../models/timm_classifier.py',
    '../datasets/imagenet_bs128_224.py',
    '../schedules/imagenet_adamw_300e.py',
    '../default_runtime.py',
]

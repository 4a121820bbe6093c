"""Classifiers of timm at 240 x 240, otherwise as timm_300e_in1k.py.

A config adds `model_name` and other arguments of `timm.create_model`.
"""

_base_ = [
    '../models/timm_classifier.py',
    '../datasets/imagenet_bs128_240.py',
    '../schedules/imagenet_adamw_300e.py',
    '../default_runtime.py',
]

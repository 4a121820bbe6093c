"""Classifier of single digits, 15 epochs.

A config adds the backbone and `head.in_channels`.
"""

_base_ = [
    '../models/classifier.py',
    '../datasets/digits_cls.py',
    '../schedules/digits_15e.py',
    '../default_runtime.py',
]
model = dict(head=dict(num_classes=10), train_cfg=None)  # neither Mixup nor CutMix

auto_scale_lr = dict(base_batch_size=64)

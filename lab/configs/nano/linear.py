"""Logistic regression on the pixels of Fashion-MNIST: a baseline for the tables of studies.

Run by this project in studies alone: lab/docs/second_study.md.
"""

_base_ = [
    '../../../configs/_base_/models/classifier_cls_token.py',
    './fashion.py',
    './five_epochs.py',
    '../../../configs/_base_/default_runtime.py',
]
model = dict(
    backbone=dict(type='mmflatten.Pixels'),
    head=dict(in_channels=784, num_classes=10),
    train_cfg=None,
)  # neither Mixup nor CutMix

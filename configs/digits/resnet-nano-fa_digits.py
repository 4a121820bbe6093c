"""Classifier with a tiny ResNet and factorized attention behind its first two clusters, on single
digits.

Run by this project: 34.0 % top-1 and 78.2 % top-5 with a schedule of 5 epochs.
lab/scripts/attention_figures.py draws its basis masks.
"""

_base_ = ['../_base_/recipes/classifier_digits.py']

model = dict(
    backbone=dict(
        type='mmflatten.AttentionResNet',
        depth=18,
        base_channels=16,
        stem_channels=16,
        strides=(1, 1, 2, 2),
        norm_eval=False,
        attention_after=(1, 2),
        attention=dict(type='FactorizedAttention', basis_channels=16),
    ),
    head=dict(in_channels=128),
)

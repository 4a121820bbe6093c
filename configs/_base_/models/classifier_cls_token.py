"""ImageNet classifier (mmpretrain) on a class token: one linear layer, trained as in classifier.py.

The config that inherits it gives the backbone, which returns the class token of its last block, and
`head.in_channels`.
"""
_base_ = ['./classifier.py']

model = dict(backbone=dict(_delete_=True), neck=None)

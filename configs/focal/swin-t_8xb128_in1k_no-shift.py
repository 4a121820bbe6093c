"""Swin-T whose windows never shift, so that no block looks across their borders.

Focal Transformer, Table 7: 80.2 % top-1 (81.2 with shift); as backbone of Mask R-CNN 1x 38.8 box AP
and 36.4 mask AP. Not run by this project.
"""

_base_ = ['../flatten_swin/swin-t_8xb128_in1k.py']

model = dict(backbone=dict(shift=False))

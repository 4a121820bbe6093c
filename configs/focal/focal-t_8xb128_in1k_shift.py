"""Focal-T whose second block of every pair shifts its windows.

Focal Transformer, Table 7: 81.9 % top-1 (82.2 without shift); as backbone of Mask R-CNN 1x 44.9 box
AP and 41.1 mask AP. Not run by this project.
"""

_base_ = ['./focal-t_8xb128_in1k.py']

model = dict(backbone=dict(shift=True))

"""Focal-T whose windows attend themselves alone: neither neighbours nor pooled windows.

Focal Transformer, Figure 5: 80.1 % top-1 (82.2 for Focal-T, Table 2); as backbone of Mask R-CNN 1x
38.3 box AP. Not run by this project.
"""

_base_ = ['./focal-t_8xb128_in1k.py']

model = dict(backbone=dict(local=False, global_=False))

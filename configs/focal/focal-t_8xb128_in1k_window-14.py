"""Focal-T with windows of 14 x 14 instead of 7 x 7.

Focal Transformer, Table 6: 82.3 % top-1, 5.2 G FLOPs (82.2 % and 4.9 G with 7 x 7); as backbone of
Mask R-CNN 1x 45.5 box AP and 41.5 mask AP. Not run by this project. The paper gives neither the
reach of the neighbours nor the focal regions at this size; those of 7 x 7 are kept.
"""

_base_ = ['./focal-t_8xb128_in1k.py']

model = dict(backbone=dict(window_size=14))

"""Swin-T with windows of 14 x 14 instead of 7 x 7, the baseline of Focal-T at that size.

Focal Transformer, Table 6: 82.1 % top-1, 4.9 G FLOPs (81.2 % and 4.5 G with 7 x 7); as backbone of
Mask R-CNN 1x 44.0 box AP and 40.5 mask AP. Not run by this project.
"""

_base_ = ['../flatten_swin/swin-t_8xb128_in1k.py']

model = dict(backbone=dict(softmax_window=14))

"""Mask R-CNN with ResNet-50 and factorized attention after cluster res3 (stride 16, 1024 channels).

Factorized Attention, Table 1: 40.2 box AP, 36.0 mask AP. Not run by this project.
"""

_base_ = ['./mask-rcnn_r50_fpn_32xb2-24e_coco.py']

model = dict(backbone=dict(attention_after=(3,)))

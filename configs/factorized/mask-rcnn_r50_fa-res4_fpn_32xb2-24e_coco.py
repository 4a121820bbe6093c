"""Mask R-CNN with ResNet-50 and factorized attention after cluster res4 (stride 32, 2048 channels).

Factorized Attention, Table 1: 39.1 box AP, 34.8 mask AP. Not run by this project.
"""

_base_ = ['./mask-rcnn_r50_fpn_32xb2-24e_coco.py']

model = dict(backbone=dict(attention_after=(4,)))

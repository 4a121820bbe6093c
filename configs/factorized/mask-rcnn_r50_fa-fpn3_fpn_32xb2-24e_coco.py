"""Mask R-CNN with ResNet-50 and factorized attention after level fpn3 (stride 16).

Factorized Attention, Table 1: 39.7 box AP, 35.5 mask AP. Not run by this project.
"""

_base_ = ['./mask-rcnn_r50_fpn_32xb2-24e_coco.py']

model = dict(neck=dict(attention_after=(3,)))

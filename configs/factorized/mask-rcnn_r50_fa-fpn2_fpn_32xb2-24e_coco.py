"""Mask R-CNN with ResNet-50 and factorized attention after level fpn2 (stride 8).

Factorized Attention, Table 1: 39.7 box AP, 35.7 mask AP. Not run by this project.
"""

_base_ = ['./mask-rcnn_r50_fpn_32xb2-24e_coco.py']

model = dict(neck=dict(attention_after=(2,)))

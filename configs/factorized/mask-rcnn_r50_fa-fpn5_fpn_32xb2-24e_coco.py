"""Mask R-CNN with ResNet-50 and factorized attention after level fpn5 (stride 64).

Factorized Attention, Table 1: 39.6 box AP, 35.3 mask AP. Not run by this project.
"""

_base_ = ['./mask-rcnn_r50_fpn_32xb2-24e_coco.py']

model = dict(neck=dict(attention_after=(5,)))

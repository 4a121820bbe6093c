"""Mask R-CNN with ResNet-50 and factorized attention after levels fpn1 to fpn4 and cluster res3.

Factorized Attention, Table 1: 40.6 box AP, 36.1 mask AP. Not run by this project.
"""

_base_ = ['./mask-rcnn_r50_fpn_32xb2-24e_coco.py']

model = dict(backbone=dict(attention_after=(3,)), neck=dict(attention_after=(1, 2, 3, 4)))

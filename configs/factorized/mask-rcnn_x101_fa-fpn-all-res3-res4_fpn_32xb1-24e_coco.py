"""Mask R-CNN with ResNeXt-101 and factorized attention after every FPN level, res3 and res4.

Factorized Attention, Table 4: 44.9 box AP, 39.5 mask AP. Not run by this project.
Printed as gains, +1.4 and +1.0; Table 5 has 45.9 box AP.
"""
_base_ = ['./mask-rcnn_x101_fpn_32xb1-24e_coco.py']

model = dict(backbone=dict(attention_after=(3, 4)), neck=dict(attention_after=(1, 2, 3, 4, 5)))

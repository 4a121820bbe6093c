"""Mask R-CNN with ResNet-101 and factorized attention after every FPN level, res3 and res4.

Factorized Attention, Table 4: 43.1 box AP, 37.9 mask AP. Not run by this project.
Printed as gains, +1.8 and +1.3; Table 5 has the 43.1.
"""
_base_ = ['./mask-rcnn_r101_fpn_32xb1-24e_coco.py']

model = dict(backbone=dict(attention_after=(3, 4)), neck=dict(attention_after=(1, 2, 3, 4, 5)))

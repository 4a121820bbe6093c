"""Mask R-CNN with ResNet-50 and factorized attention after every FPN level, res3 and res4: a basis
of 32 masks.

Factorized Attention, Table 2: 40.4 box AP, 36.1 mask AP. Not run by this project.
"""

_base_ = ['./mask-rcnn_r50_fpn_32xb2-24e_coco.py']

attention = dict(basis_channels=32)
model = dict(
    backbone=dict(attention_after=(3, 4), attention=attention),
    neck=dict(attention_after=(1, 2, 3, 4, 5), attention=attention),
)

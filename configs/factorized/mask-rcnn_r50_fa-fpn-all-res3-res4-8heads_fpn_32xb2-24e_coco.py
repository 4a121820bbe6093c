"""Mask R-CNN with ResNet-50 and factorized attention after every FPN level, res3 and res4: 8 heads.

Factorized Attention, Table 3: 40.7 box AP, 36.0 mask AP. Not run by this project.
"""

_base_ = ['./mask-rcnn_r50_fpn_32xb2-24e_coco.py']

attention = dict(num_heads=8)
model = dict(
    backbone=dict(attention_after=(3, 4), attention=attention),
    neck=dict(attention_after=(1, 2, 3, 4, 5), attention=attention),
)

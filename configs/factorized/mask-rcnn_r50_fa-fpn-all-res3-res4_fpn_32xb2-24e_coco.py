"""Mask R-CNN with ResNet-50 and factorized attention after every level of the FPN, res3 and res4.

Factorized Attention, Tables 1, 3 and 4: 41.2 box AP, 36.7 mask AP. Not run by this project.
Table 2 prints 40.6 and 36.2 for it (basis 64), which is what Table 1 has for the FPN levels alone.
"""

_base_ = ['./mask-rcnn_r50_fpn_32xb2-24e_coco.py']

model = dict(backbone=dict(attention_after=(3, 4)), neck=dict(attention_after=(1, 2, 3, 4, 5)))

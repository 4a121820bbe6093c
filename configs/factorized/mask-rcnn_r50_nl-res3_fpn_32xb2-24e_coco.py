"""Mask R-CNN with ResNet-50 and the conventional (non-local) module after cluster res3.

Factorized Attention, Figure 6, beside res3 of Factorized Attention, Table 1 (40.2, 36.0): "nearly
identical", in bars without numbers. Not run by this project. At 1333 x 800 the attention matrix has
about 4200 x 4200 entries.
"""

_base_ = ['./mask-rcnn_r50_fpn_32xb2-24e_coco.py']

model = dict(backbone=dict(attention_after=(3,), attention=dict(type='ConventionalAttention')))

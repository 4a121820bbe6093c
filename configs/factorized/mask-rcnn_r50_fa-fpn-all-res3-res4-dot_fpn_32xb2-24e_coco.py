"""Mask R-CNN with ResNet-50 and factorized attention after every FPN level, res3 and res4: scaled
dot-product.

Factorized Attention, sec. 4.1.4, one of the three instantiations that it contrasts; it prints no
accuracy of this one. Not run by this project.
"""

_base_ = ['./mask-rcnn_r50_fpn_32xb2-24e_coco.py']

attention = dict(normalization='dot')
model = dict(
    backbone=dict(attention_after=(3, 4), attention=attention),
    neck=dict(attention_after=(1, 2, 3, 4, 5), attention=attention),
)

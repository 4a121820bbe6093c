"""Mask R-CNN with Focal-T and shifted windows on COCO, 12 epochs.

Focal Transformer, Table 7: 44.9 box AP, 41.1 mask AP (44.8 and 41.0 without shift). Not run by this project. Recipe as
with Focal-T.
"""
_base_ = ['./mask-rcnn_focal-t_fpn_1x_coco.py']

# Yours to give: a checkpoint of focal-t_8xb128_in1k_shift.py
pretrained = 'checkpoints/focal-t-shift_in1k.pth'
model = dict(backbone=dict(use_shift=True, init_cfg=dict(checkpoint=pretrained)))

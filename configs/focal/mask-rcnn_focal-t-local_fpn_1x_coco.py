"""Mask R-CNN with Focal-T without pooled windows on COCO, 12 epochs.

Focal Transformer, Figure 5: a bar without a printed number (44.8 box AP for Focal-T, Table 10). Not run by this
project. Recipe as with Focal-T.
"""
_base_ = ['./mask-rcnn_focal-t_fpn_1x_coco.py']

# Yours to give: a checkpoint of focal-t_8xb128_in1k_local.py
pretrained = 'checkpoints/focal-t-local_in1k.pth'
model = dict(backbone=dict(global_=False, init_cfg=dict(checkpoint=pretrained)))

"""Mask R-CNN with Focal-T whose windows attend themselves alone on COCO, 12 epochs.

Focal Transformer, Figure 5: 38.3 box AP (44.8 for Focal-T, Table 10). Not run by this project. Recipe as with Focal-T.
"""
_base_ = ['./mask-rcnn_focal-t_fpn_1x_coco.py']

# Yours to give: a checkpoint of focal-t_8xb128_in1k_window-only.py
pretrained = 'checkpoints/focal-t-window-only_in1k.pth'
model = dict(backbone=dict(local=False, global_=False, init_cfg=dict(checkpoint=pretrained)))

"""Mask R-CNN with Focal-T in windows of 14 x 14 on COCO, 12 epochs.

Focal Transformer, Table 6: 45.5 box AP, 41.5 mask AP (44.9 and 41.1 with 7 x 7). Not run by this project. Recipe as
with Focal-T.
"""
_base_ = ['./mask-rcnn_focal-t_fpn_1x_coco.py']

# Yours to give: a checkpoint of focal-t_8xb128_in1k_window-14.py
pretrained = 'checkpoints/focal-t-window-14_in1k.pth'
model = dict(backbone=dict(window_size=14, init_cfg=dict(checkpoint=pretrained)))

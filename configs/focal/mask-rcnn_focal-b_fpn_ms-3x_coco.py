"""Mask R-CNN with Focal-B on COCO, 36 epochs.

Focal Transformer, Table 4: 49.0 box AP, 43.7 mask AP, 110.0 M parameters, 533 G FLOPs. Not run by this project.
"""
_base_ = ['./mask-rcnn_focal-t_fpn_ms-3x_coco.py']

pretrained = 'checkpoints/focal-b_in1k.pth'  # yours to give, as for Focal-T
model = dict(
    backbone=dict(arch='base', drop_path_rate=0.3, init_cfg=dict(checkpoint=pretrained)),
    neck=dict(in_channels=[128, 256, 512, 1024]))

"""Mask R-CNN with Focal-S on COCO, 12 epochs.

Focal Transformer, Table 10: 47.4 box AP, 42.8 mask AP, 71.2 M parameters, 401 G FLOPs. Not run by this project.
"""
_base_ = ['./mask-rcnn_focal-t_fpn_1x_coco.py']

pretrained = 'checkpoints/focal-s_in1k.pth'  # yours to give, as for Focal-T
model = dict(backbone=dict(arch='small', init_cfg=dict(checkpoint=pretrained)))

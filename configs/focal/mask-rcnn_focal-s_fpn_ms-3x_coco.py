"""Mask R-CNN with Focal-S on COCO, 36 epochs.

Focal Transformer, Table 4: 48.8 box AP, 43.8 mask AP, 71.2 M parameters, 401 G FLOPs. Not run by this project.
"""
_base_ = ['./mask-rcnn_focal-t_fpn_ms-3x_coco.py']

pretrained = 'checkpoints/focal-s_in1k.pth'  # yours to give, as for Focal-T
model = dict(backbone=dict(arch='small', init_cfg=dict(checkpoint=pretrained)))

"""Cascade Mask R-CNN with FLatten-Swin-S on COCO, 36 epochs.

FLatten Transformer, Table 2b: 52.2 box AP, 45.4 mask AP, 108 M parameters, 841 G FLOPs. Not run by this project.
Recipe as for FLatten-Swin-T, with the same lab's drop path of 0.1 for S too (Swin's own code has 0.2).
"""
_base_ = ['./cascade-mask-rcnn_flatten-swin-t_fpn_ms-3x_coco.py']

pretrained = 'checkpoints/flatten-swin-s_in1k.pth'
model = dict(backbone=dict(arch='small', init_cfg=dict(checkpoint=pretrained)))

"""Mask R-CNN with FLatten-CSwin-S on COCO, 12 epochs.

No paper reports it. Not run by this project. Recipe as for FLatten-CSwin-T.
"""
_base_ = ['./mask-rcnn_flatten-cswin-t_fpn_1x_coco.py']

pretrained = 'checkpoints/flatten-cswin-s_in1k.pth'
model = dict(backbone=dict(arch='small', init_cfg=dict(checkpoint=pretrained)))

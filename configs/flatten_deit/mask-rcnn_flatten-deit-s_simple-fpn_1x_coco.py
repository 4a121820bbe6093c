"""Mask R-CNN with FLatten-DeiT-S and a simple feature pyramid on COCO, 12 epochs.

No paper reports it. Not run by this project. Recipe as for FLatten-DeiT-T.
"""
_base_ = ['./mask-rcnn_flatten-deit-t_simple-fpn_1x_coco.py']

pretrained = 'checkpoints/flatten-deit-s_in1k.pth'
model = dict(
    backbone=dict(arch='small', init_cfg=dict(checkpoint=pretrained)), neck=dict(in_channels=384))

"""Mask R-CNN with FLatten-PVTv2-B2 on COCO, 12 epochs.

No paper reports it. Not run by this project. Recipe as for B1, with the drop path that the same lab gives PVT-S, which
has the depth of B2.
"""
_base_ = ['./mask-rcnn_flatten-pvtv2-b1_fpn_1x_coco.py']

pretrained = 'checkpoints/flatten-pvtv2-b2_in1k.pth'
model = dict(backbone=dict(arch='b2', drop_path_rate=0.2, init_cfg=dict(checkpoint=pretrained)))

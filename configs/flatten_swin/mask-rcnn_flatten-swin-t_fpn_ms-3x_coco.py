"""Mask R-CNN with FLatten-Swin-T on COCO, 36 epochs.

FLatten Transformer, Table 2a: 46.5 box AP, 42.1 mask AP, 49 M parameters, 268 G FLOPs. Not run by this project.
Recipe and weights to start from as in mask-rcnn_flatten-swin-t_fpn_1x_coco.py.
"""
_base_ = ['./mask-rcnn_flatten-swin-t_fpn_1x_coco.py', '../_base_/schedules/coco_3x.py']

"""Mask R-CNN with PVT-T on COCO, 12 epochs.

FLatten Transformer, Table 2a: 36.7 box AP, 35.1 mask AP, 33 M parameters, 240 G FLOPs. Not run by this project. Recipe
as with FLatten-PVT-T.
"""
_base_ = ['./mask-rcnn_flatten-pvt-t_fpn_1x_coco.py']

pretrained = 'checkpoints/pvt-t_in1k.pth'  # yours to give, as there
model = dict(backbone=dict(attn_types='SSSS', init_cfg=dict(checkpoint=pretrained)))

"""Mask R-CNN with Swin-T on COCO, 12 epochs.

FLatten Transformer, Table 2a: 43.7 box AP, 39.8 mask AP, 48 M parameters, 267 G FLOPs. Not run by this project.
Recipe as with FLatten-Swin-T.
"""
_base_ = ['./mask-rcnn_flatten-swin-t_fpn_1x_coco.py']

pretrained = 'checkpoints/swin-t_in1k.pth'  # yours to give, as there
model = dict(backbone=dict(attn_types='SSSS', init_cfg=dict(checkpoint=pretrained)))

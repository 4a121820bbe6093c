"""Mask R-CNN with Swin-T on COCO, 36 epochs.

FLatten Transformer, Table 2a: 46.0 box AP, 41.6 mask AP, 48 M parameters, 267 G FLOPs. Not run by this project.
Recipe as with FLatten-Swin-T.
"""
_base_ = ['./mask-rcnn_flatten-swin-t_fpn_ms-3x_coco.py']

pretrained = 'checkpoints/swin-t_in1k.pth'  # yours to give, as there
model = dict(backbone=dict(attn_types='SSSS', init_cfg=dict(checkpoint=pretrained)))

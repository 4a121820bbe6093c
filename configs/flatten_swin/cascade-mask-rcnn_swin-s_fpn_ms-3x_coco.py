"""Cascade Mask R-CNN with Swin-S on COCO, 36 epochs.

FLatten Transformer, Table 2b: 51.9 box AP, 45.0 mask AP, 107 M parameters, 838 G FLOPs. Not run by this project.
Recipe as with FLatten-Swin-S.
"""
_base_ = ['./cascade-mask-rcnn_flatten-swin-s_fpn_ms-3x_coco.py']

pretrained = 'checkpoints/swin-s_in1k.pth'  # yours to give, as there
model = dict(backbone=dict(attn_types='SSSS', init_cfg=dict(checkpoint=pretrained)))

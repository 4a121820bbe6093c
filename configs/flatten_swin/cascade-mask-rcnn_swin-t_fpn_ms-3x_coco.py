"""Cascade Mask R-CNN with Swin-T on COCO, 36 epochs.

FLatten Transformer, Table 2b: 50.4 box AP, 43.7 mask AP, 86 M parameters, 745 G FLOPs; Focal Transformer, Table 5:
50.5 box AP, 85.6 M and 742 G. Not run by this project. Recipe as with FLatten-Swin-T.
"""
_base_ = ['./cascade-mask-rcnn_flatten-swin-t_fpn_ms-3x_coco.py']

pretrained = 'checkpoints/swin-t_in1k.pth'  # yours to give, as there
model = dict(backbone=dict(attn_types='SSSS', init_cfg=dict(checkpoint=pretrained)))

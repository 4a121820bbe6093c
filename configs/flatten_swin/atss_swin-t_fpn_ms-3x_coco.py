"""ATSS with Swin-T on COCO, 36 epochs.

Focal Transformer, Table 5: 47.2 box AP, 35.7 M parameters, 212 G FLOPs. Not run by this project.
Recipe as with FLatten-Swin-T: drop path 0.1, Swin's, where Focal-T's ATSS has 0.2.
"""
_base_ = ['./atss_flatten-swin-t_fpn_ms-3x_coco.py']

pretrained = 'checkpoints/swin-t_in1k.pth'  # yours to give, as there
model = dict(backbone=dict(attn_types='SSSS', init_cfg=dict(checkpoint=pretrained)))

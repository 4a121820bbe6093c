"""Semantic FPN with PVT-T on ADE20K, 40 000 iterations.

FLatten Transformer, Table 1: 36.57 mIoU, 46.72 mAcc, 17 M parameters, 158 G FLOPs at 2048 x 512. Not run by this
project. Recipe as with FLatten-PVT-T.
"""
_base_ = ['./semantic-fpn_flatten-pvt-t_8xb2-40k_ade20k-512x512.py']

pretrained = 'checkpoints/pvt-t_in1k.pth'  # yours to give, as there
model = dict(backbone=dict(attn_types='SSSS', init_cfg=dict(checkpoint=pretrained)))

"""Mask R-CNN with Enhanced Swin-T v1 on COCO, 12 epochs.

L2ViT, Table 6: 44.7 box AP (L2ViT-T: 45.5). Not run by this project. Recipe as with L2ViT-T.
"""
_base_ = ['./mask-rcnn_l2vit-t_fpn_1x_coco.py']

# Yours to give: a checkpoint of enhanced-swin-t-v1_32xb128_in1k.py
pretrained = 'checkpoints/enhanced-swin-t-v1_in1k.pth'
model = dict(backbone=dict(block_order='WS', conv_stem=False, init_cfg=dict(checkpoint=pretrained)))

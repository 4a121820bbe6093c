"""Mask R-CNN with L2ViT-S on COCO, 12 epochs.

L2ViT, Table 4: 47.2 box AP, 42.4 mask AP, 70 M parameters, 360 G FLOPs at 800 x 1280. Not run by this project. Recipe
as with L2ViT-T.
"""
_base_ = ['./mask-rcnn_l2vit-t_fpn_1x_coco.py']

pretrained = 'checkpoints/l2vit-s_in1k.pth'  # yours to give, as there
model = dict(backbone=dict(arch='small', init_cfg=dict(checkpoint=pretrained)))

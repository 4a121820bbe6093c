"""Mask R-CNN with L2ViT-T whose denominators are at least 1e1 on COCO, 12 epochs.

L2ViT, Table 10: 45.1 box AP, 41.0 mask AP (1e2: 45.5 and 41.2). Not run by this project. Trained
like L2ViT-T.
"""

_base_ = ['./mask-rcnn_l2vit-t_fpn_1x_coco.py']

# A checkpoint of l2vit-t_32xb128_in1k_clamp-1e1.py.
pretrained = 'checkpoints/l2vit-t-clamp-1e1_in1k.pth'
model = dict(backbone=dict(min_denominator=1e1, init_cfg=dict(checkpoint=pretrained)))

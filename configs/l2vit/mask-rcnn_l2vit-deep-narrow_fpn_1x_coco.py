"""Mask R-CNN with deep and narrow L2ViT on COCO, 12 epochs.

L2ViT, Table 7: 46.1 box AP, 41.6 mask AP (L2ViT-T: 45.5 and 41.2). Not run by this project. Trained
like L2ViT-T.
"""

_base_ = ['./mask-rcnn_l2vit-t_fpn_1x_coco.py']

# A checkpoint of l2vit-deep-narrow_32xb128_in1k.py.
pretrained = 'checkpoints/l2vit-deep-narrow_in1k.pth'
model = dict(
    backbone=dict(arch='deep-narrow', init_cfg=dict(checkpoint=pretrained)),
    neck=dict(in_channels=[64, 128, 256, 512]),
)

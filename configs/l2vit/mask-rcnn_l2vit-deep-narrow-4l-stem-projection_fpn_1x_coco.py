"""Mask R-CNN with deep and narrow L2ViT trained with a projection before its head on COCO, 12
epochs.

L2ViT, Table 7: 46.0 box AP, 41.4 mask AP (L2ViT-T: 45.5 and 41.2). The detector leaves the
projection out. Not run by this project. Trained like L2ViT-T.
"""

_base_ = ['./mask-rcnn_l2vit-t_fpn_1x_coco.py']

# A checkpoint of l2vit-deep-narrow_32xb128_in1k_4l-stem_projection.py.
pretrained = 'checkpoints/l2vit-deep-narrow-4l-stem-projection_in1k.pth'
model = dict(
    backbone=dict(arch='deep-narrow', conv_stem='4L', init_cfg=dict(checkpoint=pretrained)),
    neck=dict(in_channels=[64, 128, 256, 512]),
)

"""Mask R-CNN with L2ViT-S on COCO, 12 epochs.

L2ViT, Table 4: 47.2 box AP, 42.4 mask AP, 70 M parameters, 360 G FLOPs at 800 x 1280. Not run by
this project. Trained like L2ViT-T.
"""

_base_ = ['./mask-rcnn_l2vit-t_fpn_1x_coco.py']

# A checkpoint of l2vit-s_32xb128_in1k.py, or the official one after tools/convert_checkpoint.py.
pretrained = 'checkpoints/l2vit-s_in1k.pth'
model = dict(backbone=dict(arch='small', init_cfg=dict(checkpoint=pretrained)))

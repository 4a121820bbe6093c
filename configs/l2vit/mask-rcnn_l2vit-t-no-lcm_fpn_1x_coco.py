"""Mask R-CNN with L2ViT-T without local concentration on COCO, 12 epochs.

L2ViT, Table 6: 44.7 box AP (L2ViT-T: 45.5). Not run by this project. Trained like L2ViT-T.
"""

_base_ = ['./mask-rcnn_l2vit-t_fpn_1x_coco.py']

# A checkpoint of l2vit-t_32xb128_in1k_no-lcm.py.
pretrained = 'checkpoints/l2vit-t-no-lcm_in1k.pth'
model = dict(backbone=dict(lcm_kernel=None, init_cfg=dict(checkpoint=pretrained)))

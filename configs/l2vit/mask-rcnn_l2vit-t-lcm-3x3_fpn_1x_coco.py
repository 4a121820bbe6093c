"""Mask R-CNN with L2ViT-T with local concentration by 3 x 3 convolutions on COCO, 12 epochs.

L2ViT, Table 6: 45.3 box AP (7 x 7: 45.5). Not run by this project. Trained like L2ViT-T.
"""

_base_ = ['./mask-rcnn_l2vit-t_fpn_1x_coco.py']

# A checkpoint of l2vit-t_32xb128_in1k_lcm-3x3.py.
pretrained = 'checkpoints/l2vit-t-lcm-3x3_in1k.pth'
model = dict(backbone=dict(lcm_kernel=3, init_cfg=dict(checkpoint=pretrained)))

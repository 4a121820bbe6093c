"""Mask R-CNN with L2ViT-T without scale parameter and local concentration on COCO, 12 epochs.

L2ViT, Table 6: 44.8 box AP (L2ViT-T: 45.5). Not run by this project. Trained like L2ViT-T.
"""

_base_ = ['./mask-rcnn_l2vit-t_fpn_1x_coco.py']

# A checkpoint of l2vit-t_32xb128_in1k_no-scale_no-lcm.py.
pretrained = 'checkpoints/l2vit-t-no-scale-no-lcm_in1k.pth'
model = dict(
    backbone=dict(temperature=False, lcm_kernel=None, init_cfg=dict(checkpoint=pretrained))
)

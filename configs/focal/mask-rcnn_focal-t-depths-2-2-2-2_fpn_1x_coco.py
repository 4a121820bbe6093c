"""Mask R-CNN with Focal-T of depths 2-2-2-2 on COCO, 12 epochs.

Focal Transformer, Table 8: 40.5 box AP, 37.6 mask AP (44.8 and 41.0 with 2-2-6-2). Not run by this project. Recipe as
with Focal-T.
"""
_base_ = ['./mask-rcnn_focal-t_fpn_1x_coco.py']

# Yours to give: a checkpoint of focal-t_8xb128_in1k_depths-2-2-2-2.py
pretrained = 'checkpoints/focal-t-depths-2-2-2-2_in1k.pth'
model = dict(
    backbone=dict(
        arch=dict(_delete_=True, embed_dims=96, depths=(2, 2, 2, 2), num_heads=(3, 6, 12, 24)),
        init_cfg=dict(checkpoint=pretrained)))

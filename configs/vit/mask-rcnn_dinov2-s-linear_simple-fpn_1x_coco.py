"""Mask R-CNN with DINOv2's ViT-S/14 and focused linear attention in all blocks on COCO, 12 epochs.

No paper reports it. Not run by this project. Start from a model that `mmflatten linearize` made of
`mask-rcnn_dinov2-s_simple-fpn_1x_coco.py`.
"""
_base_ = ['./mask-rcnn_dinov2-s_simple-fpn_1x_coco.py']

model = dict(backbone=dict(attn_types='L', init_cfg=None))

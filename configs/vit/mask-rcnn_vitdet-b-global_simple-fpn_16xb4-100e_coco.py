"""Mask R-CNN with ViT-B in ViTDet's recipe on COCO, all blocks global.

No paper reports it with this head. Not run by this project.
"""
_base_ = ['./mask-rcnn_vitdet-b_simple-fpn_16xb4-100e_coco.py']

model = dict(backbone=dict(attn_types='S'))

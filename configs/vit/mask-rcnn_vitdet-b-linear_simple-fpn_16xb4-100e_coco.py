"""Mask R-CNN with ViT-B in ViTDet's recipe on COCO: windows, and focused linear attention in the four global blocks.

No paper reports it. Not run by this project. Start from a model that `mmflatten linearize` made, or from MAE's weights
(`model.backbone.init_cfg`), whose linear blocks then lack the parameters of their attention.
"""
_base_ = ['./mask-rcnn_vitdet-b_simple-fpn_16xb4-100e_coco.py']

model = dict(backbone=dict(attn_types='WWLWWLWWLWWL', init_cfg=None))

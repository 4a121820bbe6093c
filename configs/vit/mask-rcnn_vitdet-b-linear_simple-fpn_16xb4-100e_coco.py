"""Mask R-CNN with ViT-B in ViTDet's recipe on COCO: windows, and focused linear attention in the
four global blocks.

No paper reports it. Not run by this project. Start from a model that `mmflatten linearize` made, or
from MAE's weights (`model.backbone.init_cfg`), whose linear blocks then lack the parameters of
their attention.
"""

_base_ = ['../_base_/recipes/mask-rcnn_vitdet-100e_coco.py']

model = dict(
    backbone=dict(
        type='mmflatten.ViT',
        arch='base',
        attn_types='WWLWWLWWLWWL',
        with_cls_token=False,
        out_type='featmap',
        output_norm='none',
        drop_path_rate=0.1,
    ),
    neck=dict(
        _delete_=True,
        type='mmflatten.SimpleFeaturePyramid',
        in_channels=768,
        out_channels=256,
        num_outs=5,
    ),
)

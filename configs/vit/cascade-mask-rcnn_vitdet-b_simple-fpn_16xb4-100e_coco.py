"""Cascade Mask R-CNN with ViT-B in ViTDet's recipe on COCO: windows of 14, four global blocks.

ViTDet's model zoo (detectron2): 54.0 box AP, 46.7 mask AP, with relative positions and heads of
four convolutions, which this model does not have. Not run by this project.
"""

_base_ = ['../_base_/recipes/cascade-mask-rcnn_vitdet-100e_coco.py']

# MAE's ViT-B (facebookresearch/mae, mae_pretrain_vit_base.pth), after
# `mmflatten convert --family auto`.
pretrained = 'checkpoints/mae-vit-b.pth'
model = dict(
    backbone=dict(
        type='mmflatten.ViT',
        arch='base',
        attn_types='WWSWWSWWSWWS',
        with_cls_token=False,
        out_type='featmap',
        output_norm='none',
        drop_path_rate=0.1,
        init_cfg=dict(type='Pretrained', checkpoint=pretrained, prefix='backbone.'),
    ),
    neck=dict(
        _delete_=True,
        type='mmflatten.SimpleFeaturePyramid',
        in_channels=768,
        out_channels=256,
        num_outs=5,
    ),
)

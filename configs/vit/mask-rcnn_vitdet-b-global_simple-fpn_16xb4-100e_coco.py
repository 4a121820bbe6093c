"""Mask R-CNN with ViT-B in ViTDet's recipe on COCO, all blocks global.

No paper reports it with this head. Not run by this project.
"""

_base_ = ['../_base_/recipes/mask-rcnn_vitdet-100e_coco.py']

# MAE's ViT-B (facebookresearch/mae, mae_pretrain_vit_base.pth), after
# `mmflatten convert --family auto`.
pretrained = 'checkpoints/mae-vit-b.pth'
model = dict(
    backbone=dict(
        type='mmflatten.ViT',
        arch='base',
        attn_types='S',
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

"""Mask R-CNN with a frozen DINOv3 ViT-B/16 and a simple feature pyramid on COCO, 12 epochs.

No paper reports it. Not run by this project.
"""

_base_ = ['../_base_/recipes/mask-rcnn_ms-1x_coco.py']

# Meta's weights are under the DINOv3 License: accept it at
# ai.meta.com/resources/models-and-libraries/dinov3-downloads or on Hugging Face
# (facebook/dinov3-vitb16-pretrain-lvd1689m), then `mmflatten convert --family auto`.
pretrained = 'checkpoints/dinov3-b.pth'
model = dict(
    backbone=dict(
        type='mmflatten.ViT',
        arch='dinov3-base',
        out_type='featmap',
        output_norm='shared',
        frozen_stages=12,
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

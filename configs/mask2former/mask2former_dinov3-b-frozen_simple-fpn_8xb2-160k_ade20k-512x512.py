"""Mask2Former for semantic segmentation with a frozen DINOv3 ViT-B/16 and a simple feature pyramid
on ADE20K, 160 000 iterations.

No paper reports it. Not run by this project. Trained like Swin-T; the rate of the backbone has no
effect.
"""

_base_ = ['../_base_/recipes/mask2former_160k_ade20k-512x512.py']

# Meta's weights are under the DINOv3 License; for how to get them see
# ../vit/mask-rcnn_dinov3-b-frozen_simple-fpn_1x_coco.py.
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
    neck=dict(type='mmflatten.SimpleFeaturePyramid', in_channels=768, out_channels=256),
    decode_head=dict(in_channels=[256, 256, 256, 256]),
)

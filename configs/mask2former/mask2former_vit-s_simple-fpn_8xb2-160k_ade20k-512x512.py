"""Mask2Former for semantic segmentation with a plain ViT-S/16 and a simple feature pyramid on
ADE20K, 160 000 iterations.

No paper reports it. Not run by this project. Trained like Swin-T, with the drop path of the plain
ViTs here.
"""

_base_ = ['../_base_/recipes/mask2former_160k_ade20k-512x512.py']

# DeiT III's deit_3_small_224_1k.pth, after `mmflatten convert --family auto`.
pretrained = 'checkpoints/deit3-s.pth'
model = dict(
    backbone=dict(
        type='mmflatten.ViT',
        arch='deit3-small',
        out_type='featmap',
        output_norm='shared',
        drop_path_rate=0.1,
        init_cfg=dict(type='Pretrained', checkpoint=pretrained, prefix='backbone.'),
    ),
    neck=dict(type='mmflatten.SimpleFeaturePyramid', in_channels=384, out_channels=256),
    decode_head=dict(in_channels=[256, 256, 256, 256]),
)

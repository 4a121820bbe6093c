"""Mask R-CNN with Swin-S on COCO, 12 epochs.

Focal Transformer, Tables 3 and 10: 46.5 box AP, 42.1 mask AP, 69.1 M parameters, 354 G FLOPs;
L2ViT, Table 4: 44.8 box AP, 40.9 mask AP, of another training. Not run by this project.
Swin's authors publish no such training, Focal's do not describe theirs: trained like Focal-S (sec.
4.2).
"""

_base_ = ['../_base_/recipes/mask-rcnn_1x_coco.py']

# A checkpoint of swin-s_8xb128_in1k.py, or the official one after tools/convert_checkpoint.py.
pretrained = 'checkpoints/swin-s_in1k.pth'
model = dict(
    backbone=dict(
        type='mmflatten.FLattenSwin',
        arch='small',
        attn_types='SSSS',
        drop_path_rate=0.2,
        init_cfg=dict(type='Pretrained', checkpoint=pretrained, prefix='backbone.'),
    ),
    neck=dict(in_channels=[96, 192, 384, 768]),
)

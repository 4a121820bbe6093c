"""Mask R-CNN with Swin-B on COCO, 12 epochs.

Focal Transformer, Tables 3 and 10: 46.9 box AP, 42.3 mask AP, 107 M parameters, 496 G FLOPs; L2ViT,
Table 4: 45.5 box AP, 41.3 mask AP, of another training. Not run by this project.
Swin's authors publish no such training, Focal's do not describe theirs: trained like Focal-B (sec.
4.2).
"""

_base_ = ['../_base_/recipes/mask-rcnn_1x_coco.py']

# A checkpoint of swin-b_8xb64_in1k.py, or the official one after tools/convert_checkpoint.py.
pretrained = 'checkpoints/swin-b_in1k.pth'
model = dict(
    backbone=dict(
        type='mmflatten.FLattenSwin',
        arch='base',
        attn_types='SSSS',
        drop_path_rate=0.3,
        init_cfg=dict(type='Pretrained', checkpoint=pretrained, prefix='backbone.'),
    ),
    neck=dict(in_channels=[128, 256, 512, 1024]),
)

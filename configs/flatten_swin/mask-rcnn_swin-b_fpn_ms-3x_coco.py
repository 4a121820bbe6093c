"""Mask R-CNN with Swin-B on COCO, 36 epochs.

Focal Transformer, Table 4: 48.5 box AP, 43.4 mask AP, 107 M parameters, 496 G FLOPs. Not run by
this project. Swin's authors publish no such training, Focal's do not describe theirs: trained like
Focal-B (sec. 4.2).
"""

_base_ = ['../_base_/recipes/mask-rcnn_ms-3x_coco.py']

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

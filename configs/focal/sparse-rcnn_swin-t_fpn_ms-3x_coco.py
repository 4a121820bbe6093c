"""Sparse R-CNN with Swin-T on COCO, 36 epochs, the baseline of Focal-T.

Focal Transformer, Table 5: 47.9 box AP, 109.7 M parameters, 172 G FLOPs. Not run by this project.
Trained like Focal-T. Counted: 169.9 G without products of activations, as this paper counts its
other Swin detectors (and R-50 in this one, 166), 173.0 with those of the backbone, 176.2 with those
of the six dynamic heads too.
"""

_base_ = ['../_base_/recipes/sparse-rcnn_ms-3x_coco.py']

# A checkpoint of swin-t_8xb128_in1k.py, or the official one after tools/convert_checkpoint.py.
pretrained = 'checkpoints/swin-t_in1k.pth'
model = dict(
    backbone=dict(
        type='mmflatten.FLattenSwin',
        arch='tiny',
        attn_types='SSSS',
        drop_path_rate=0.2,
        init_cfg=dict(type='Pretrained', checkpoint=pretrained, prefix='backbone.'),
    ),
    neck=dict(in_channels=[96, 192, 384, 768]),
)

"""Cascade Mask R-CNN with RAVLT-B on COCO, 36 epochs.

RALA, README: 55.3 box AP, 47.7 mask AP. Not run by this project. Inferred: it trains like Swin,
with the drop path of the classifier.
"""

_base_ = ['../_base_/recipes/cascade-mask-rcnn_ms-3x_coco.py']

# A checkpoint of ravlt-b_8xb128_in1k.py.
pretrained = 'checkpoints/ravlt-b_in1k.pth'
model = dict(
    backbone=dict(
        type='mmflatten.RAVLT',
        arch='base',
        layer_scale=(1.0, 1.0, 1e-6, 1e-6),
        drop_path_rate=0.4,
        init_cfg=dict(type='Pretrained', checkpoint=pretrained, prefix='backbone.'),
    ),
    neck=dict(in_channels=[96, 192, 384, 512]),
)

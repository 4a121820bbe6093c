"""Cascade Mask R-CNN with RAVLT-L on COCO, 36 epochs.

RALA, README: 55.6 box AP, 48.0 mask AP. Not run by this project. Inferred: it trains like Swin,
with the drop path of the classifier.
"""

_base_ = ['../_base_/recipes/cascade-mask-rcnn_ms-3x_coco.py']

# A checkpoint of ravlt-l_8xb128_in1k.py.
pretrained = 'checkpoints/ravlt-l_in1k.pth'
model = dict(
    backbone=dict(
        type='mmflatten.RAVLT',
        arch='large',
        layer_scale=1e-6,
        drop_path_rate=0.55,
        init_cfg=dict(type='Pretrained', checkpoint=pretrained, prefix='backbone.'),
    ),
    neck=dict(in_channels=[96, 192, 448, 640]),
)

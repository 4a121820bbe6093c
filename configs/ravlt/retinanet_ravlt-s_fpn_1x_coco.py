"""RetinaNet with RAVLT-S on COCO, 12 epochs.

RALA, README: 48.3 box AP. Not run by this project. Inferred: it trains like FLatten-Swin at a
single scale, with the drop path of the classifier.
"""

_base_ = ['../_base_/recipes/retinanet_1x_coco.py']

# A checkpoint of ravlt-s_8xb128_in1k.py.
pretrained = 'checkpoints/ravlt-s_in1k.pth'
model = dict(
    backbone=dict(
        type='mmflatten.RAVLT',
        arch='small',
        drop_path_rate=0.15,
        init_cfg=dict(type='Pretrained', checkpoint=pretrained, prefix='backbone.'),
    ),
    neck=dict(in_channels=[128, 320, 512]),
)

"""Mask R-CNN with RAVLT-T on COCO, 12 epochs.

RALA, README: 47.3 box AP, 42.7 mask AP, 219 G FLOPs at 800 x 1280. Not run by this project.
Inferred: it trains like FLatten-Swin at a single scale, with the drop path of the classifier.
"""

_base_ = ['../_base_/recipes/mask-rcnn_1x_coco.py']

# A checkpoint of ravlt-t_8xb128_in1k.py.
pretrained = 'checkpoints/ravlt-t_in1k.pth'
model = dict(
    backbone=dict(
        type='mmflatten.RAVLT',
        arch='tiny',
        drop_path_rate=0.1,
        init_cfg=dict(type='Pretrained', checkpoint=pretrained, prefix='backbone.'),
    ),
    neck=dict(in_channels=[64, 128, 256, 512]),
)

"""RetinaNet with RAVLT-L on COCO, 12 epochs.

RALA, README: 50.9 box AP. Not run by this project. Inferred: it trains like FLatten-Swin at a
single scale, with the drop path of the classifier.
"""

_base_ = ['../_base_/recipes/retinanet_1x_coco.py']

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
    neck=dict(in_channels=[192, 448, 640]),
)

"""Semantic FPN with RAVLT-B on ADE20K, 40 000 iterations.

RALA, README: 51.9 mIoU. Not run by this project. Inferred: it trains like PVT, for as many
iterations, with the drop path of the classifier.
"""

_base_ = ['../_base_/recipes/semantic-fpn_40k_ade20k-512x512.py']

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

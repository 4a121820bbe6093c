"""Semantic FPN with RAVLT-S on ADE20K, 40 000 iterations.

RALA, README: 49.5 mIoU. Not run by this project. Inferred: it trains like PVT, for as many
iterations, with the drop path of the classifier.
"""

_base_ = ['../_base_/recipes/semantic-fpn_40k_ade20k-512x512.py']

# A checkpoint of ravlt-s_8xb128_in1k.py.
pretrained = 'checkpoints/ravlt-s_in1k.pth'
model = dict(
    backbone=dict(
        type='mmflatten.RAVLT',
        arch='small',
        drop_path_rate=0.15,
        init_cfg=dict(type='Pretrained', checkpoint=pretrained, prefix='backbone.'),
    ),
    neck=dict(in_channels=[64, 128, 320, 512]),
)

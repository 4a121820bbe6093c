"""Semantic FPN with RAVLT-L on ADE20K, 40 000 iterations.

RALA, README: 52.6 mIoU. Not run by this project. Inferred: it trains like PVT, for as many
iterations, with the drop path of the classifier.
"""

_base_ = ['../_base_/recipes/semantic-fpn_40k_ade20k-512x512.py']

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

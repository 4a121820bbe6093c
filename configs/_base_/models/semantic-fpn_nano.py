"""Semantic FPN of reduced width for scenes of 160 x 160 pixels and 11 classes, from random weights.

The config that inherits it gives the backbone and `neck.in_channels`.
"""

_base_ = ['./semantic-fpn.py']
norm_cfg = dict(type='BN', requires_grad=True)
model = dict(
    data_preprocessor=dict(size=(160, 160)),
    neck=dict(out_channels=64),
    decode_head=dict(in_channels=[64, 64, 64, 64], channels=64, num_classes=11, norm_cfg=norm_cfg),
)

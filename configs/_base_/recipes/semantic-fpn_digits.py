"""Semantic FPN of reduced width on the digit scenes, 2000 iterations.

A config adds the backbone and `neck.in_channels`.
"""
_base_ = [
    '../models/semantic-fpn.py', '../datasets/digits_seg.py', '../schedules/digits_2k.py', '../default_runtime.py'
]
norm_cfg = dict(type='BN', requires_grad=True)
model = dict(
    data_preprocessor=dict(size=(160, 160)),
    neck=dict(out_channels=64),
    decode_head=dict(in_channels=[64, 64, 64, 64], channels=64, num_classes=11, norm_cfg=norm_cfg))

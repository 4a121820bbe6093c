"""DeepLabv3+ with ResNeSt-200 on ADE20K, 160 000 iterations.

Focal Transformer, Table 12: 48.4 mIoU, 88 M parameters, 1381 G FLOPs. Not run by this project. Initial weights are
random: name a checkpoint in model.backbone.init_cfg. Model and recipe: mmseg's.
"""
_base_ = ['./danet_r101_8xb2-160k_ade20k-512x512.py']

model = dict(
    backbone=dict(
        type='ResNeSt',
        depth=200,
        stem_channels=128,
        radix=2,
        reduction_factor=4,
        avg_down_stride=True),
    decode_head=dict(
        _delete_=True,
        type='DepthwiseSeparableASPPHead',
        in_channels=2048,
        in_index=3,
        dilations=(1, 12, 24, 36),
        c1_in_channels=256,
        c1_channels=48,
        channels=512,
        dropout_ratio=0.1,
        num_classes=150,
        norm_cfg=dict(type='SyncBN', requires_grad=True)))

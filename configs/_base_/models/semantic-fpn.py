"""Semantic FPN (mmseg).

The norms are synchronised over the GPUs (SyncBN), which a run on a CPU or one GPU turns into plain
BatchNorm. The config that inherits it gives the backbone and `neck.in_channels`.
"""

default_scope = 'mmseg'
visualizer = dict(
    type='SegLocalVisualizer', name='visualizer', vis_backends=[dict(type='LocalVisBackend')]
)
norm_cfg = dict(type='SyncBN', requires_grad=True)
model = dict(
    type='EncoderDecoder',
    data_preprocessor=dict(
        type='SegDataPreProcessor',
        mean=[123.675, 116.28, 103.53],
        std=[58.395, 57.12, 57.375],
        bgr_to_rgb=True,
        pad_val=0,
        seg_pad_val=255,
        size=(512, 512),
    ),
    backbone=dict(),
    neck=dict(type='FPN', in_channels=None, out_channels=256, num_outs=4),
    decode_head=dict(
        type='FPNHead',
        in_channels=[256, 256, 256, 256],
        in_index=[0, 1, 2, 3],
        feature_strides=[4, 8, 16, 32],
        channels=128,
        dropout_ratio=0.1,
        num_classes=150,
        norm_cfg=norm_cfg,
        align_corners=False,
        # The model takes the mean over all pixels, ignored ones included. This is mmseg's default,
        # of which it warns; for the mean over the others set reduction='mean' and
        # avg_non_ignore=True.
        loss_decode=dict(
            type='CrossEntropyLoss', use_sigmoid=False, reduction='none', loss_weight=1.0
        ),
    ),
    train_cfg=dict(),
    test_cfg=dict(mode='whole'),
)

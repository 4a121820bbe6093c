"""OCRNet with HRNet-W48 on ADE20K, 160 000 iterations.

Focal Transformer, Table 12: 45.7 mIoU, 71 M parameters, 664 G FLOPs. Not run by this project.
Initial weights are
random: name a checkpoint in model.backbone.init_cfg. Model and recipe: mmseg's.
"""

_base_ = ['../_base_/recipes/segmentor_160k-sgd_ade20k-512x512.py']

norm_cfg = dict(type='SyncBN', requires_grad=True)
channels = [48, 96, 192, 384]
model = dict(
    type='CascadeEncoderDecoder',
    num_stages=2,
    backbone=dict(
        type='HRNet',
        norm_cfg=norm_cfg,
        norm_eval=False,
        extra=dict(
            stage1=dict(
                num_modules=1,
                num_branches=1,
                block='BOTTLENECK',
                num_blocks=(4,),
                num_channels=(64,),
            ),
            stage2=dict(
                num_modules=1,
                num_branches=2,
                block='BASIC',
                num_blocks=(4, 4),
                num_channels=(48, 96),
            ),
            stage3=dict(
                num_modules=4,
                num_branches=3,
                block='BASIC',
                num_blocks=(4, 4, 4),
                num_channels=(48, 96, 192),
            ),
            stage4=dict(
                num_modules=3,
                num_branches=4,
                block='BASIC',
                num_blocks=(4, 4, 4, 4),
                num_channels=(48, 96, 192, 384),
            ),
        ),
    ),
    decode_head=[
        dict(
            type='FCNHead',
            channels=720,
            kernel_size=1,
            num_convs=1,
            concat_input=False,
            in_channels=channels,
            in_index=(0, 1, 2, 3),
            input_transform='resize_concat',
            dropout_ratio=-1,
            num_classes=150,
            norm_cfg=norm_cfg,
            # The model takes the mean over all pixels, ignored ones included. This is mmseg's
            # default, of which it warns; for the mean over the others set reduction='mean' and
            # avg_non_ignore=True.
            loss_decode=dict(type='CrossEntropyLoss', reduction='none', loss_weight=0.4),
        ),
        dict(
            type='OCRHead',
            channels=512,
            ocr_channels=256,
            in_channels=channels,
            in_index=(0, 1, 2, 3),
            input_transform='resize_concat',
            dropout_ratio=-1,
            num_classes=150,
            norm_cfg=norm_cfg,
            loss_decode=dict(type='CrossEntropyLoss', reduction='none'),
        ),
    ],
)

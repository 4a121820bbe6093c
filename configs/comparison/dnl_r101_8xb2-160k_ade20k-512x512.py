"""DNL with ResNet-101 on ADE20K, 160 000 iterations.

Focal Transformer, Table 12: 46.0 mIoU, 69 M parameters, 1249 G FLOPs. Not run by this project.
Initial weights are
random: name a checkpoint in model.backbone.init_cfg. Model and recipe: mmseg's.
"""

_base_ = ['../_base_/recipes/segmentor_160k-sgd_ade20k-512x512.py']

norm_cfg = dict(type='SyncBN', requires_grad=True)
model = dict(
    backbone=dict(
        type='ResNetV1c',
        depth=101,
        dilations=(1, 1, 2, 4),
        strides=(1, 2, 1, 1),
        contract_dilation=True,
        norm_cfg=norm_cfg,
        norm_eval=False,
    ),
    decode_head=dict(
        type='DNLHead',
        reduction=2,
        mode='embedded_gaussian',
        in_channels=2048,
        in_index=3,
        channels=512,
        dropout_ratio=0.1,
        num_classes=150,
        norm_cfg=norm_cfg,
        # The model takes the mean over all pixels, ignored ones included. This is mmseg's default,
        # of which it warns; for the mean over the others set reduction='mean' and
        # avg_non_ignore=True.
        loss_decode=dict(type='CrossEntropyLoss', reduction='none'),
    ),
    auxiliary_head=dict(
        type='FCNHead',
        in_channels=1024,
        in_index=2,
        channels=256,
        num_convs=1,
        concat_input=False,
        dropout_ratio=0.1,
        num_classes=150,
        norm_cfg=norm_cfg,
        loss_decode=dict(type='CrossEntropyLoss', reduction='none', loss_weight=0.4),
    ),
)

"""SETR-MLA with ViT-L on ADE20K, 160 000 iterations.

Focal Transformer, Table 12: 50.3 mIoU, 308 M parameters. Not run by this project. Initial weights
are random: name a checkpoint in model.backbone.init_cfg. Model and recipe: mmseg's. The paper does
not say which of SETR's decoders it is; its 50.3 is that of MLA. Inference.
"""

_base_ = ['../_base_/recipes/segmentor_160k-sgd_ade20k-512x512.py']

norm_cfg = dict(type='SyncBN', requires_grad=True)
model = dict(
    backbone=dict(
        type='VisionTransformer',
        img_size=(512, 512),
        embed_dims=1024,
        num_layers=24,
        num_heads=16,
        out_indices=(5, 11, 17, 23),
        norm_cfg=dict(type='LN', eps=1e-6),
        with_cls_token=False,
        interpolate_mode='bilinear',
    ),
    neck=dict(
        type='MLANeck',
        in_channels=[1024, 1024, 1024, 1024],
        out_channels=256,
        norm_cfg=norm_cfg,
        act_cfg=dict(type='ReLU'),
    ),
    decode_head=dict(
        type='SETRMLAHead',
        in_channels=(256, 256, 256, 256),
        channels=512,
        in_index=(0, 1, 2, 3),
        dropout_ratio=0,
        mla_channels=128,
        num_classes=150,
        norm_cfg=norm_cfg,
        # The model takes the mean over all pixels, ignored ones included. This is mmseg's default,
        # of which it warns; for the mean over the others set reduction='mean' and
        # avg_non_ignore=True.
        loss_decode=dict(type='CrossEntropyLoss', reduction='none'),
    ),
    auxiliary_head=[
        dict(
            type='FCNHead',
            in_channels=256,
            channels=256,
            in_index=index,
            dropout_ratio=0,
            num_convs=0,
            kernel_size=1,
            concat_input=False,
            num_classes=150,
            norm_cfg=norm_cfg,
            loss_decode=dict(type='CrossEntropyLoss', reduction='none', loss_weight=0.4),
        )
        for index in range(4)
    ],
    test_cfg=dict(mode='slide', crop_size=(512, 512), stride=(341, 341)),
)

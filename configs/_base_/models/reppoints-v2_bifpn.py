"""RepPoints V2 on strides 8 to 128, with two layers of BiFPN and group norm in neck and head.

Swin's release:
`reppoitsv2_swin_tiny_patch4_window7_mstrain_480_960_giou_gfocal_bifpn_adamw_3x_coco.py` and its
base `reppointsv2_swin_bifpn.py`. Its PointAssignerV2 and ATSSAssignerV2 are mmdet's assigners where
there are no masks. The config that inherits it gives the backbone, which returns the maps of
strides 8, 16 and 32, and `neck.in_channels`.
"""

default_scope = 'mmdet'
visualizer = dict(
    type='DetLocalVisualizer', name='visualizer', vis_backends=[dict(type='LocalVisBackend')]
)
norm_cfg = dict(type='GN', num_groups=32, requires_grad=True)
model = dict(
    type='RepPointsDetector',
    data_preprocessor=dict(
        type='DetDataPreprocessor',
        mean=[123.675, 116.28, 103.53],
        std=[58.395, 57.12, 57.375],
        bgr_to_rgb=True,
        pad_size_divisor=32,
    ),
    backbone=dict(out_indices=(1, 2, 3)),
    neck=dict(
        type='mmflatten.BiFPN',
        in_channels=None,
        out_channels=256,
        num_outs=5,
        num_layers=2,
        norm_cfg=norm_cfg,
    ),
    bbox_head=dict(
        type='mmflatten.RepPointsV2Head',
        num_classes=80,
        in_channels=256,
        feat_channels=256,
        point_feat_channels=256,
        stacked_convs=3,
        num_points=9,
        gradient_mul=0.1,
        point_strides=[8, 16, 32, 64, 128],
        norm_cfg=norm_cfg,
        loss_cls=dict(type='QualityFocalLoss', use_sigmoid=True, beta=2.0, loss_weight=1.0),
        loss_bbox_init=dict(type='GIoULoss', loss_weight=1.0),
        loss_bbox_refine=dict(type='GIoULoss', loss_weight=2.0),
    ),
    train_cfg=dict(
        init=dict(assigner=dict(type='PointAssigner', scale=4, pos_num=1)),
        refine=dict(assigner=dict(type='ATSSAssigner', topk=9)),
    ),
    test_cfg=dict(
        nms_pre=1000,
        min_bbox_size=0,
        score_thr=0.05,
        nms=dict(type='nms', iou_threshold=0.6),
        max_per_img=100,
    ),
)

"""Panoptic FPN of reduced width for scenes of 160 x 160 pixels, from random weights.

A Mask R-CNN as in mask-rcnn_fpn_nano.py finds the things; a semantic head on the same pyramid
labels the stuff. The config that inherits it gives the backbone and `neck.in_channels`.
"""

_base_ = ['./mask-rcnn_fpn.py']
channels = 48
norm_cfg = dict(type='BN')  # nothing is pre-trained, so every part is normalised
model = dict(
    type='PanopticFPN',
    data_preprocessor=dict(pad_seg=True, seg_pad_value=255),
    semantic_head=dict(
        type='PanopticFPNHead',
        num_things_classes=10,
        num_stuff_classes=4,
        in_channels=channels,
        inner_channels=channels,
        start_level=0,
        end_level=4,
        norm_cfg=norm_cfg,
        loss_seg=dict(
            type='CrossEntropyLoss', ignore_index=255, avg_non_ignore=True, loss_weight=0.5
        ),
    ),
    panoptic_fusion_head=dict(
        type='HeuristicFusionHead', num_things_classes=10, num_stuff_classes=4
    ),
    neck=dict(out_channels=channels, num_outs=4, norm_cfg=norm_cfg),
    # A digit is about 1.5 times as high as wide; anchors of 32 and 64 pixels fit.
    rpn_head=dict(
        in_channels=channels,
        feat_channels=channels,
        anchor_generator=dict(scales=[8], ratios=[1.4], strides=[4, 8, 16, 32]),
    ),
    roi_head=dict(
        bbox_roi_extractor=dict(out_channels=channels, roi_layer=dict(sampling_ratio=1)),
        bbox_head=dict(
            type='ConvFCBBoxHead',
            num_shared_convs=2,
            num_shared_fcs=1,
            in_channels=channels,
            conv_out_channels=channels,
            fc_out_channels=256,
            num_classes=10,
            reg_class_agnostic=True,
            norm_cfg=norm_cfg,
        ),
        mask_roi_extractor=dict(out_channels=channels, roi_layer=dict(sampling_ratio=1)),
        mask_head=dict(
            num_convs=2,
            in_channels=channels,
            conv_out_channels=channels,
            num_classes=10,
            norm_cfg=norm_cfg,
        ),
    ),
    train_cfg=dict(
        rpn=dict(sampler=dict(num=64)),
        rpn_proposal=dict(nms_pre=200, max_per_img=50),
        rcnn=dict(sampler=dict(num=32)),
    ),
    test_cfg=dict(
        rpn=dict(nms_pre=200, max_per_img=50),
        # Segments do not overlap, so neither do boxes of different classes.
        rcnn=dict(max_per_img=20, score_thr=0.5, nms=dict(class_agnostic=True)),
        # in pixels of the scene, 0.5 % of it; mmdet's 4096 are 1.3 % of an image of COCO
        panoptic=dict(mask_overlap=0.5, stuff_area_limit=128),
    ),
)

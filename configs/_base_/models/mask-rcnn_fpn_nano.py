"""Mask R-CNN of reduced width for scenes of 160 x 160 pixels, from random weights.

The config that inherits it gives the backbone and `neck.in_channels`.
"""

_base_ = ['./mask-rcnn_fpn.py']
channels = 48
norm_cfg = dict(type='BN')  # nothing is pre-trained, so every part is normalised
model = dict(
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
    test_cfg=dict(rpn=dict(nms_pre=200, max_per_img=50), rcnn=dict(max_per_img=20)),
)

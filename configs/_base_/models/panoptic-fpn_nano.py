"""Panoptic FPN of reduced width for scenes of 160 x 160 pixels, from random weights.

The Mask R-CNN of the base finds the things; a semantic head on the same pyramid labels the stuff.
The config that inherits it gives the backbone and `neck.in_channels`.
"""

_base_ = ['./mask-rcnn_fpn_nano.py']
model = dict(
    type='PanopticFPN',
    data_preprocessor=dict(pad_seg=True, seg_pad_value=255),
    semantic_head=dict(
        type='PanopticFPNHead',
        num_things_classes=10,
        num_stuff_classes=4,
        in_channels=_base_.channels,
        inner_channels=_base_.channels,
        start_level=0,
        end_level=4,
        norm_cfg=_base_.norm_cfg,
        loss_seg=dict(
            type='CrossEntropyLoss', ignore_index=255, avg_non_ignore=True, loss_weight=0.5
        ),
    ),
    panoptic_fusion_head=dict(
        type='HeuristicFusionHead', num_things_classes=10, num_stuff_classes=4
    ),
    test_cfg=dict(
        # Segments do not overlap, so neither do boxes of different classes.
        rcnn=dict(score_thr=0.5, nms=dict(class_agnostic=True)),
        # in pixels of the scene, 0.5 % of it; mmdet's 4096 are 1.3 % of an image of COCO
        panoptic=dict(mask_overlap=0.5, stuff_area_limit=128),
    ),
)

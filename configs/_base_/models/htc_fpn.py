"""Hybrid Task Cascade with FPN and its semantic branch (mmdet): boxes, masks and stuff learn from
each other.

Three stages of two fully connected layers, as HTC's own code. The semantic branch trains on COCO's
stuff maps. The config that inherits it gives the backbone and `neck.in_channels`.
"""

_base_ = ['./mask-rcnn_fpn.py']

rcnn, roi_head = _base_.model.train_cfg.rcnn, _base_.model.roi_head
model = dict(
    type='HybridTaskCascade',
    data_preprocessor=dict(pad_seg=True),
    rpn_head=dict(loss_bbox=dict(type='SmoothL1Loss', beta=1.0 / 9.0)),
    roi_head=dict(
        type='HybridTaskCascadeRoIHead',
        interleaved=True,
        mask_info_flow=True,
        num_stages=3,
        stage_loss_weights=[1, 0.5, 0.25],
        bbox_head=[
            dict(
                roi_head.bbox_head,
                bbox_coder=dict(
                    type='DeltaXYWHBBoxCoder', target_means=[0.0, 0.0, 0.0, 0.0], target_stds=stds
                ),
                reg_class_agnostic=True,
                loss_bbox=dict(type='SmoothL1Loss', beta=1.0, loss_weight=1.0),
            )
            for stds in ([0.1, 0.1, 0.2, 0.2], [0.05, 0.05, 0.1, 0.1], [0.033, 0.033, 0.067, 0.067])
        ],
        # Every mask head but the first takes in what the one before it has found.
        mask_head=[
            dict(roi_head.mask_head, type='HTCMaskHead', with_conv_res=stage > 0)
            for stage in range(3)
        ],
        semantic_roi_extractor=dict(roi_head.mask_roi_extractor, featmap_strides=[8]),
        semantic_head=dict(
            type='FusedSemanticHead',
            num_ins=5,
            fusion_level=1,
            seg_scale_factor=1 / 8,
            num_convs=4,
            in_channels=256,
            conv_out_channels=256,
            num_classes=183,
            # The mean over all pixels, ignored ones included, as mmdet's default, of which it
            # warns.
            loss_seg=dict(
                type='CrossEntropyLoss', ignore_index=255, reduction='none', loss_weight=0.2
            ),
        ),
    ),
    train_cfg=dict(
        rpn=dict(allowed_border=0),
        rpn_proposal=dict(max_per_img=2000),
        rcnn=[
            dict(
                rcnn,
                assigner=dict(
                    type='MaxIoUAssigner',
                    pos_iou_thr=iou,
                    neg_iou_thr=iou,
                    min_pos_iou=iou,
                    ignore_iof_thr=-1,
                ),
            )
            for iou in (0.5, 0.6, 0.7)
        ],
    ),
    test_cfg=dict(rcnn=dict(score_thr=0.001)),
)
del rcnn, roi_head

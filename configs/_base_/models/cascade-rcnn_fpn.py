"""Cascade R-CNN with FPN (mmdet): three box heads of two fully connected layers, no masks.

The config that inherits it gives the backbone and `neck.in_channels`.
"""

_base_ = ['./mask-rcnn_fpn.py']

bbox_head = _base_.model.roi_head.bbox_head
rcnn = _base_.model.train_cfg.rcnn
model = dict(
    type='CascadeRCNN',
    data_preprocessor=dict(pad_mask=False),
    rpn_head=dict(loss_bbox=dict(type='SmoothL1Loss', beta=1.0 / 9.0)),
    roi_head=dict(
        type='CascadeRoIHead',
        num_stages=3,
        stage_loss_weights=[1, 0.5, 0.25],
        mask_roi_extractor=None,
        mask_head=None,
        bbox_head=[
            dict(
                bbox_head,
                reg_class_agnostic=True,
                bbox_coder=dict(
                    type='DeltaXYWHBBoxCoder', target_means=[0.0, 0.0, 0.0, 0.0], target_stds=stds
                ),
                loss_bbox=dict(type='SmoothL1Loss', beta=1.0, loss_weight=1.0),
            )
            for stds in ([0.1, 0.1, 0.2, 0.2], [0.05, 0.05, 0.1, 0.1], [0.033, 0.033, 0.067, 0.067])
        ],
    ),
    train_cfg=dict(
        rpn=dict(allowed_border=0),
        rpn_proposal=dict(max_per_img=2000),
        rcnn=[
            dict(
                rcnn,
                assigner=dict(
                    rcnn.assigner,
                    pos_iou_thr=iou,
                    neg_iou_thr=iou,
                    min_pos_iou=iou,
                    match_low_quality=False,
                ),
            )
            for iou in (0.5, 0.6, 0.7)
        ],
    ),
)
del bbox_head, rcnn

"""Cascade Mask R-CNN with FPN (mmdet) and the box heads that Swin's and Agent-Attention's authors
use with it.

Four convolutions with BatchNorm and one fully connected layer, GIoU loss on decoded boxes, in each
of three stages. The norm is synchronised over the GPUs (SyncBN), which a run on a CPU or one GPU
turns into plain BatchNorm. The config that inherits it gives the backbone and `neck.in_channels`.
"""

_base_ = ['./mask-rcnn_fpn.py']

norm_cfg = dict(type='SyncBN', requires_grad=True)
bbox_head = dict(
    type='ConvFCBBoxHead',
    num_shared_convs=4,
    num_shared_fcs=1,
    in_channels=256,
    conv_out_channels=256,
    fc_out_channels=1024,
    roi_feat_size=7,
    num_classes=80,
    reg_class_agnostic=False,
    reg_decoded_bbox=True,
    norm_cfg=norm_cfg,
    loss_cls=dict(type='CrossEntropyLoss', use_sigmoid=False, loss_weight=1.0),
    loss_bbox=dict(type='GIoULoss', loss_weight=10.0),
)
rcnn = _base_.model.train_cfg.rcnn
model = dict(
    type='CascadeRCNN',
    rpn_head=dict(loss_bbox=dict(type='SmoothL1Loss', beta=1.0 / 9.0)),
    roi_head=dict(
        type='CascadeRoIHead',
        num_stages=3,
        stage_loss_weights=[1, 0.5, 0.25],
        bbox_head=[
            dict(
                bbox_coder=dict(
                    type='DeltaXYWHBBoxCoder', target_means=[0.0, 0.0, 0.0, 0.0], target_stds=stds
                ),
                **bbox_head,
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

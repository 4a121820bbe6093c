"""Cascade Mask R-CNN with GCNet (ResNeXt-101) on COCO, 36 epochs.

Focal Transformer, Table 11: 51.8 box AP, 44.7 mask AP, 1041 G FLOPs. Not run by this project.
Initial weights are random: name a checkpoint in model.backbone.init_cfg, with frozen_stages=1.
Inferred: mmdet's largest GCNet with four convolutions in the heads; the table names neither
detector nor schedule.
"""

_base_ = ['../_base_/recipes/cascade-mask-rcnn_ms-3x-sgd_coco.py']

model = dict(
    backbone=dict(
        type='ResNeXt',
        depth=101,
        groups=32,
        base_width=4,
        norm_cfg=dict(type='SyncBN', requires_grad=True),
        norm_eval=False,
        dcn=dict(type='DCN', deform_groups=1, fallback_on_stride=False),
        stage_with_dcn=(False, True, True, True),
        plugins=[
            dict(
                cfg=dict(type='ContextBlock', ratio=1.0 / 4),
                stages=(False, True, True, True),
                position='after_conv3',
            )
        ],
    ),
    neck=dict(in_channels=[256, 512, 1024, 2048]),
)

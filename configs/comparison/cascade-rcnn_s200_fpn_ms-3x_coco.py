"""Cascade R-CNN with ResNeSt-200 on COCO, 36 epochs.

Focal Transformer, Table 11: 52.5 box AP. Not run by this project. Initial weights are random: name
a checkpoint in model.backbone.init_cfg, and freeze its stem with frozen_stages=1. Inferred: the
table names neither detector nor schedule, and prints no mask AP.
"""

_base_ = ['../_base_/recipes/cascade-rcnn_ms-3x-sgd_coco.py']

model = dict(
    backbone=dict(
        type='ResNeSt',
        depth=200,
        stem_channels=128,
        radix=2,
        reduction_factor=4,
        avg_down_stride=True,
        norm_cfg=dict(type='SyncBN', requires_grad=True),
        norm_eval=False,
    ),
    neck=dict(in_channels=[256, 512, 1024, 2048]),
)

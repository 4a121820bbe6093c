"""Mask R-CNN with Focal-T on COCO, 12 epochs.

Focal Transformer, Table 10: 44.8 box AP, 41.0 mask AP, 48.8 M parameters, 291 G FLOPs. Not run by this project. Recipe:
sec. 4.2, with warm-up and steps as in Swin's detectors; the authors' detection code is not published. Images at a
single scale, the shorter side at 800.
"""
_base_ = [
    '../_base_/models/mask-rcnn_fpn.py', '../_base_/datasets/coco_instance.py',
    '../_base_/schedules/coco_1x_focal.py', '../_base_/default_runtime.py'
]
# Yours to give: a checkpoint of focal-t_8xb128_in1k.py, or an official one after tools/convert_checkpoint.py.
# Elsewhere: --cfg-options model.backbone.init_cfg.checkpoint=PATH. From random weights: model.backbone.init_cfg=None.
pretrained = 'checkpoints/focal-t_in1k.pth'
model = dict(
    backbone=dict(
        type='mmflatten.FocalTransformer',
        arch='tiny',
        focal_windows=(15, 13, 9, 7),
        expand_everywhere=True,
        neighbor_boundary='mask',
        drop_path_rate=0.2,
        init_cfg=dict(type='Pretrained', checkpoint=pretrained, prefix='backbone.')),
    neck=dict(in_channels=[96, 192, 384, 768]))

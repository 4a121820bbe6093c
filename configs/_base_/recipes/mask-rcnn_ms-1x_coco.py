"""Mask R-CNN on COCO, 12 epochs of AdamW at many scales.

A config adds the backbone and `neck.in_channels`.
"""
_base_ = [
    '../models/mask-rcnn_fpn.py', '../datasets/coco_instance_ms.py', '../schedules/coco_1x.py', '../default_runtime.py'
]

"""Mask R-CNN on COCO, 12 epochs of AdamW at a single scale, with PVT's rates.

A config adds the backbone and `neck.in_channels`.
"""
_base_ = [
    '../models/mask-rcnn_fpn.py', '../datasets/coco_instance.py', '../schedules/coco_1x_pvt.py', '../default_runtime.py'
]

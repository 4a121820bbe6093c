"""Mask R-CNN on COCO, 12 epochs of AdamW at many scales.

A config adds the backbone and `neck.in_channels`.
Weights in another place: `--cfg-options model.backbone.init_cfg.checkpoint=PATH`; random ones:
`model.backbone.init_cfg=None`.
"""

_base_ = [
    '../models/mask-rcnn_fpn.py',
    '../datasets/coco_instance_ms.py',
    '../schedules/coco_1x.py',
    '../default_runtime.py',
]

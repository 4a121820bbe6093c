"""Cascade Mask R-CNN on COCO, 36 epochs of SGD at many scales, for residual networks.

A config adds the backbone and `neck.in_channels`.
Weights in another place: `--cfg-options model.backbone.init_cfg.checkpoint=PATH`; random ones:
`model.backbone.init_cfg=None`.
"""

_base_ = [
    '../models/cascade-mask-rcnn_fpn.py',
    '../datasets/coco_instance_ms.py',
    '../schedules/coco_3x_sgd.py',
    '../default_runtime.py',
]

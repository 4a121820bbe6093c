"""Mask R-CNN on COCO, 24 epochs of SGD on a total batch of 64 at a single scale: Factorized
Attention's training.

A config adds the backbone and `neck.in_channels`.
Weights in another place: `--cfg-options model.backbone.init_cfg.checkpoint=PATH`; random ones:
`model.backbone.init_cfg=None`.
"""

_base_ = [
    '../models/mask-rcnn_fpn.py',
    '../datasets/coco_instance.py',
    '../schedules/coco_24e_sgd.py',
    '../default_runtime.py',
]

"""RetinaNet on COCO, 12 epochs of AdamW at many scales.

A config adds the backbone, of which the maps of strides 8, 16 and 32 are taken, and
`neck.in_channels`. Weights in another place: `--cfg-options
model.backbone.init_cfg.checkpoint=PATH`; random ones: `model.backbone.init_cfg=None`.
"""

_base_ = [
    '../models/retinanet_fpn.py',
    '../datasets/coco_detection_ms.py',
    '../schedules/coco_1x.py',
    '../default_runtime.py',
]

"""DINO with four maps on COCO, 12 epochs of AdamW at many scales; images without objects are
trained on too.

A config adds the backbone, of which the maps of strides 8, 16 and 32 are taken, and
`neck.in_channels`.
Weights in another place: `--cfg-options model.backbone.init_cfg.checkpoint=PATH`; random ones:
`model.backbone.init_cfg=None`.
"""

_base_ = [
    '../models/dino-4scale.py',
    '../datasets/coco_detection_ms.py',
    '../schedules/coco_12e_dino.py',
    '../default_runtime.py',
]
train_dataloader = dict(dataset=dict(filter_cfg=dict(filter_empty_gt=False)))

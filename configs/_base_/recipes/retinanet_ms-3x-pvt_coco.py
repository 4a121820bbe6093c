"""RetinaNet on COCO, 36 epochs of AdamW at many scales, with half of the rate of PVT's Mask R-CNN.

A config adds the backbone, of which the maps of strides 8, 16 and 32 are taken, and
`neck.in_channels`. Weights in another place: `--cfg-options
model.backbone.init_cfg.checkpoint=PATH`; random ones: `model.backbone.init_cfg=None`.
"""

_base_ = [
    '../models/retinanet_fpn.py',
    '../datasets/coco_detection_ms-640-800.py',
    '../schedules/coco_3x_pvt.py',
    '../default_runtime.py',
]

optim_wrapper = dict(optimizer=dict(lr=1e-4))

"""Cascade Mask R-CNN in ViTDet's recipe on COCO: otherwise as mask-rcnn_vitdet-100e_coco.py.

A config adds the backbone and `neck.in_channels`.

Weights in another place: `--cfg-options model.backbone.init_cfg.checkpoint=PATH`; random ones:
`model.backbone.init_cfg=None`.
"""

_base_ = [
    '../models/cascade-mask-rcnn_fpn.py',
    '../datasets/coco_instance_lsj1024.py',
    '../schedules/coco_100e_vitdet.py',
    '../default_runtime.py',
]

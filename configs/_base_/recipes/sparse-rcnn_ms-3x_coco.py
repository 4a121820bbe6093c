"""Sparse R-CNN on COCO, 36 epochs of AdamW at many scales; gradients are clipped as in Sparse
R-CNN's own code.

A config adds the backbone and `neck.in_channels`.
Weights in another place: `--cfg-options model.backbone.init_cfg.checkpoint=PATH`; random ones:
`model.backbone.init_cfg=None`.
"""

_base_ = [
    '../models/sparse-rcnn_fpn.py',
    '../datasets/coco_detection_ms.py',
    '../schedules/coco_3x.py',
    '../default_runtime.py',
]

optim_wrapper = dict(clip_grad=dict(max_norm=1, norm_type=2))

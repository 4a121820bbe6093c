"""HTC on COCO with soft-NMS, 36 epochs of AdamW at many scales: appendix A.2 of Focal Transformer.

For its InstaBoost, which needs a package that is not installed here, replace coco_htc_ms.py by
coco_htc_instaboost_ms.py below.
A config adds the backbone and `neck.in_channels`.
Weights in another place: `--cfg-options model.backbone.init_cfg.checkpoint=PATH`; random ones:
`model.backbone.init_cfg=None`.
"""

_base_ = [
    '../models/htc_fpn.py',
    '../datasets/coco_htc_ms.py',
    '../schedules/coco_3x.py',
    '../default_runtime.py',
]
model = dict(test_cfg=dict(rcnn=dict(nms=dict(type='soft_nms', iou_threshold=0.5))))
optim_wrapper = dict(optimizer=dict(weight_decay=0.1))

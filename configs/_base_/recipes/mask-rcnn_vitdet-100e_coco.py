"""Mask R-CNN in ViTDet's recipe on COCO: 100 epochs of AdamW on large-scale jittered squares of
1024, 64 images a step.

Source: Li et al., ECCV 2022, appendix, and detectron2's `projects/ViTDet`. Box and mask heads are
those of Mask R-CNN here, not with four convolutions and layer norms. A config adds the backbone and
`neck.in_channels`.

Weights in another place: `--cfg-options model.backbone.init_cfg.checkpoint=PATH`; random ones:
`model.backbone.init_cfg=None`.
"""

_base_ = [
    '../models/mask-rcnn_fpn.py',
    '../datasets/coco_instance_lsj1024.py',
    '../schedules/coco_100e_vitdet.py',
    '../default_runtime.py',
]

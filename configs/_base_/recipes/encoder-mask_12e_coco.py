"""EncoderMaskHead on COCO instances in crops of 640 x 640, 12 epochs.

A config adds the backbone and `panoptic_head.in_channels`. Masked attention is annealed away over
the 87 948 steps of 8 GPUs with 2 images each.

Weights in another place: `--cfg-options model.backbone.init_cfg.checkpoint=PATH`; random ones:
`model.backbone.init_cfg=None`.
"""

_base_ = [
    '../models/encoder-mask.py',
    '../datasets/coco_instance_lsj640.py',
    '../schedules/coco_12e_encoder-mask.py',
    '../default_runtime.py',
]
model = dict(panoptic_head=dict(anneal_steps=87948))

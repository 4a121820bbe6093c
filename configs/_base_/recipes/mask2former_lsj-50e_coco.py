"""Mask2Former for instances on COCO: 368 750 iterations (50 epochs) of AdamW on large-scale
jittered squares of 1024, 16 images a step.

A config adds the backbone and `panoptic_head.in_channels`.
Weights in another place: `--cfg-options model.backbone.init_cfg.checkpoint=PATH`; random ones:
`model.backbone.init_cfg=None`.
"""

_base_ = [
    '../models/mask2former.py',
    '../datasets/coco_instance_lsj-padded.py',
    '../schedules/coco_50e_mask2former.py',
    '../default_runtime.py',
]
model = dict(
    data_preprocessor=dict(
        batch_augments=[
            dict(type='BatchFixedSizePad', size=(1024, 1024), img_pad_value=0, pad_mask=True)
        ]
    )
)

"""Mask2Former for semantic segmentation on ADE20K: 160 000 iterations of AdamW in crops of
512 x 512, 16 images a step.

A config adds the backbone and `decode_head.in_channels`.
Weights in another place: `--cfg-options model.backbone.init_cfg.checkpoint=PATH`; random ones:
`model.backbone.init_cfg=None`.
"""

_base_ = [
    '../models/mask2former_segmentor.py',
    '../datasets/ade20k_512x512_short-side.py',
    '../schedules/ade20k_160k_mask2former.py',
    '../default_runtime.py',
]

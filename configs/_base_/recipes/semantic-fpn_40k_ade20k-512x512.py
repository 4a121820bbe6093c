"""Semantic FPN on ADE20K, 40 000 iterations of AdamW in crops of 512 x 512.

A config adds the backbone and `neck.in_channels`.
Weights in another place: `--cfg-options model.backbone.init_cfg.checkpoint=PATH`; random ones:
`model.backbone.init_cfg=None`.
"""

_base_ = [
    '../models/semantic-fpn.py',
    '../datasets/ade20k_512x512.py',
    '../schedules/ade20k_40k.py',
    '../default_runtime.py',
]

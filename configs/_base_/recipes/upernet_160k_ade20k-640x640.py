"""UperNet on ADE20K, 160 000 iterations of AdamW in crops of 640 x 640.

A config adds the backbone, `decode_head.in_channels` and `auxiliary_head.in_channels`.
Weights in another place: `--cfg-options model.backbone.init_cfg.checkpoint=PATH`; random ones:
`model.backbone.init_cfg=None`.
"""

_base_ = [
    '../models/upernet.py',
    '../datasets/ade20k_640x640.py',
    '../schedules/ade20k_160k.py',
    '../default_runtime.py',
]
model = dict(data_preprocessor=dict(size=(640, 640)))

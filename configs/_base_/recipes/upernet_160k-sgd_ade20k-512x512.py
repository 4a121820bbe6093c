"""UperNet on ADE20K, 160 000 iterations of SGD in crops of 512 x 512, for residual networks.

A config adds the backbone, `decode_head.in_channels` and `auxiliary_head.in_channels`.
Weights in another place: `--cfg-options model.backbone.init_cfg.checkpoint=PATH`; random ones:
`model.backbone.init_cfg=None`.
"""

_base_ = [
    '../models/upernet.py',
    '../datasets/ade20k_512x512.py',
    '../schedules/ade20k_160k_sgd.py',
    '../default_runtime.py',
]

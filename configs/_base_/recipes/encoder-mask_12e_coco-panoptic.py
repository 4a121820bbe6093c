"""EncoderMaskHead for panoptic segmentation on COCO: 80 things and 53 kinds of stuff, otherwise as
encoder-mask_12e_coco.py.

A config adds the backbone and `panoptic_head.in_channels`.

Weights in another place: `--cfg-options model.backbone.init_cfg.checkpoint=PATH`; random ones:
`model.backbone.init_cfg=None`.
"""

_base_ = [
    '../models/encoder-mask.py',
    '../datasets/coco_panoptic_lsj640.py',
    '../schedules/coco_12e_encoder-mask.py',
    '../default_runtime.py',
]
model = dict(
    data_preprocessor=dict(pad_seg=True, seg_pad_value=255),
    panoptic_head=dict(num_stuff_classes=53, anneal_steps=87948),
    panoptic_fusion_head=dict(num_stuff_classes=53),
    test_cfg=dict(panoptic_on=True),
)

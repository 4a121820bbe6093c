"""Mask2Former for panoptic segmentation on COCO: 80 things and 53 kinds of stuff, otherwise as
mask2former_lsj-50e_coco.py.

A config adds the backbone and `panoptic_head.in_channels`.
Weights in another place: `--cfg-options model.backbone.init_cfg.checkpoint=PATH`; random ones:
`model.backbone.init_cfg=None`.
"""

_base_ = [
    '../models/mask2former.py',
    '../datasets/coco_panoptic_lsj-padded.py',
    '../schedules/coco_50e_mask2former.py',
    '../default_runtime.py',
]
model = dict(
    data_preprocessor=dict(
        pad_seg=True,
        seg_pad_value=255,
        batch_augments=[
            dict(
                type='BatchFixedSizePad',
                size=(1024, 1024),
                img_pad_value=0,
                pad_mask=True,
                pad_seg=True,
                seg_pad_value=255,
            )
        ],
    ),
    panoptic_head=dict(
        num_stuff_classes=53,
        loss_cls=dict(class_weight=[1.0] * 133 + [0.1]),
    ),
    panoptic_fusion_head=dict(num_stuff_classes=53),
    test_cfg=dict(panoptic_on=True),
)

"""Mask2Former of reduced width for the panoptic digit scenes: ten digits and four kinds of stuff,
otherwise as mask2former_nano.py.
"""

_base_ = ['./mask2former_nano.py']

model = dict(
    data_preprocessor=dict(pad_seg=True, seg_pad_value=255),
    panoptic_head=dict(
        num_stuff_classes=4,
        loss_cls=dict(class_weight=[1.0] * 14 + [0.1]),
    ),
    panoptic_fusion_head=dict(num_stuff_classes=4),
    test_cfg=dict(panoptic_on=True),
)

"""Mask2Former of reduced width on the panoptic digit scenes: ten digits and four kinds of stuff,
otherwise as mask2former_digits.py.

A config adds the backbone and `panoptic_head.in_channels`.
"""

_base_ = [
    '../models/mask2former_nano.py',
    '../datasets/digits_panoptic.py',
    '../schedules/digits_6e.py',
    '../default_runtime.py',
]
# one process loads faster than two cores train
train_dataloader = dict(batch_size=4, num_workers=1)
model = dict(
    data_preprocessor=dict(pad_seg=True, seg_pad_value=255),
    panoptic_head=dict(
        num_stuff_classes=4,
        loss_cls=dict(class_weight=[1.0] * 14 + [0.1]),
    ),
    panoptic_fusion_head=dict(num_stuff_classes=4),
    test_cfg=dict(panoptic_on=True),
)
optim_wrapper = dict(optimizer=dict(lr=5e-4))

"""EncoderMaskHead of reduced width on the panoptic digit scenes: ten digits and four kinds of
stuff, otherwise as encoder-mask_digits.py.

A config adds the backbone, `panoptic_head.in_channels` and `panoptic_head.anneal_steps`.
"""

_base_ = [
    '../models/encoder-mask_nano.py',
    '../datasets/digits_panoptic.py',
    '../schedules/digits_15e.py',
    '../default_runtime.py',
]
# small batches, for the same scenes teach more in more steps
train_dataloader = dict(batch_size=4, num_workers=1)
model = dict(
    data_preprocessor=dict(pad_seg=True, seg_pad_value=255),
    panoptic_head=dict(num_stuff_classes=4),
    panoptic_fusion_head=dict(num_stuff_classes=4),
    test_cfg=dict(panoptic_on=True),
)
auto_scale_lr = dict(base_batch_size=4)

"""Mask2Former of reduced width on the panoptic digit scenes, otherwise as mask2former_digits.py.

A config adds the backbone and `panoptic_head.in_channels`.
"""

_base_ = [
    '../models/mask2former_panoptic_nano.py',
    '../datasets/digits_panoptic.py',
    '../schedules/digits_6e.py',
    '../default_runtime.py',
]
# one process loads faster than two cores train
train_dataloader = dict(batch_size=4, num_workers=1)
optim_wrapper = dict(optimizer=dict(lr=5e-4))

"""Panoptic FPN of reduced width on the panoptic digit scenes, 6 epochs.

A config adds the backbone and `neck.in_channels`.
"""

_base_ = [
    '../models/panoptic-fpn_nano.py',
    '../datasets/digits_panoptic.py',
    '../schedules/digits_6e.py',
    '../default_runtime.py',
]
# one process loads faster than two cores train
train_dataloader = dict(batch_size=4, num_workers=1)

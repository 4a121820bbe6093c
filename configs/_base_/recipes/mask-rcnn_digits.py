"""Mask R-CNN of reduced width on the digit scenes, 5 epochs.

A config adds the backbone and `neck.in_channels`.
"""

_base_ = [
    '../models/mask-rcnn_fpn_nano.py',
    '../datasets/digits_coco.py',
    '../schedules/digits_5e.py',
    '../default_runtime.py',
]
# one process loads faster than two cores train
train_dataloader = dict(batch_size=4, num_workers=1)

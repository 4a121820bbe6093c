"""DINO of reduced width on the digit scenes, 6 epochs at half of the usual rate.

A config adds the backbone, of which the maps of strides 8, 16 and 32 are taken, and
`neck.in_channels`.
"""

_base_ = [
    '../models/dino-4scale_nano.py',
    '../datasets/digits_coco_det.py',
    '../schedules/digits_6e.py',
    '../default_runtime.py',
]
# one process loads faster than two cores train
train_dataloader = dict(batch_size=4, num_workers=1)
optim_wrapper = dict(optimizer=dict(lr=1e-3))

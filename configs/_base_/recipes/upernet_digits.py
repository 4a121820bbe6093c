"""UperNet of reduced width on the digit scenes, 2000 iterations at three times the usual rate.

A config adds the backbone and, if they differ, the `in_channels` of both heads.
"""

_base_ = [
    '../models/upernet_nano.py',
    '../datasets/digits_seg.py',
    '../schedules/digits_2k.py',
    '../default_runtime.py',
]
optim_wrapper = dict(optimizer=dict(lr=3e-3))

"""Semantic FPN of reduced width on the digit scenes, 2000 iterations.

A config adds the backbone and `neck.in_channels`.
"""

_base_ = [
    '../models/semantic-fpn_nano.py',
    '../datasets/digits_seg.py',
    '../schedules/digits_2k.py',
    '../default_runtime.py',
]

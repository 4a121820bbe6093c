"""Mask2Former of reduced width for semantic segmentation of the digit scenes, 2000 iterations.

A config adds the backbone and `decode_head.in_channels`.
"""

_base_ = [
    '../models/mask2former_segmentor_nano.py',
    '../datasets/digits_seg.py',
    '../schedules/digits_2k.py',
    '../default_runtime.py',
]

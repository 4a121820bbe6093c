"""RetinaNet of reduced width on the digit scenes, 15 epochs.

A config adds the backbone, of which the maps of strides 8, 16 and 32 are taken, and
`neck.in_channels`.
"""

_base_ = [
    '../models/retinanet_fpn_nano.py',
    '../datasets/digits_coco_det.py',
    '../schedules/digits_15e.py',
    '../default_runtime.py',
]

"""PSMNet of reduced width on stereo pairs of garment scenes, from random weights on a CPU.

Run by this project: 2.351 px end-point error on the 80 held-out pairs with seed 0, where their mean
disparity gives
6.782.
"""

_base_ = [
    '../../../configs/_base_/models/psmnet_tiny.py',
    '../_base_/datasets/garments_stereo.py',
    '../../../configs/_base_/schedules/stereo_adam_6e.py',
    '../../../configs/_base_/default_runtime.py',
]

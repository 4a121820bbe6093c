"""Segmentors of other heads on ADE20K, 160 000 iterations of SGD in crops of 512 x 512.

A config adds the backbone and all heads.
"""

_base_ = [
    '../models/segmentor.py',
    '../datasets/ade20k_512x512.py',
    '../schedules/ade20k_160k_sgd.py',
    '../default_runtime.py',
]

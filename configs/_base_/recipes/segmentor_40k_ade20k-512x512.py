"""Segmentors of other heads on ADE20K, 40 000 iterations of AdamW in crops of 512 x 512.

A config adds the backbone and all heads.
"""

_base_ = [
    '../models/segmentor.py',
    '../datasets/ade20k_512x512.py',
    '../schedules/ade20k_40k.py',
    '../default_runtime.py',
]

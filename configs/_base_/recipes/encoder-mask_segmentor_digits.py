"""EncoderMaskHead of reduced width on the digit scenes, semantic segmentation, 2000 iterations.

A config adds the backbone, `decode_head.in_channels` and `decode_head.anneal_steps`.
"""

_base_ = [
    '../models/encoder-mask_segmentor_nano.py',
    '../datasets/digits_seg.py',
    '../schedules/digits_2k.py',
    '../default_runtime.py',
]

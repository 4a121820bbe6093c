"""FLatten-CSwin's fine-tuning on ImageNet-1k at 384 x 384, 30 epochs on a total batch of 256, with
averaged weights, evaluated on images squeezed to a square.

A config adds the backbone, `head.in_channels` and `load_from`, a checkpoint at 224 x 224.
"""

_base_ = [
    '../models/classifier.py',
    '../datasets/imagenet_bs32_flatten-cswin_384.py',
    '../schedules/imagenet_adamw_30e_384_flatten-cswin.py',
    '../default_runtime.py',
]

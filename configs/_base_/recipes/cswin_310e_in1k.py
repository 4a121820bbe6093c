"""CSwin's own training on ImageNet-1k, 310 epochs on a total batch of 2048, with averaged weights.

The commands of CSwin's README. The authors train in mixed precision, here `--amp`.
A config adds the backbone and `head.in_channels`.
"""

_base_ = [
    '../models/classifier.py',
    '../datasets/imagenet_bs256_cswin_224.py',
    '../schedules/imagenet_adamw_310e_cswin.py',
    '../default_runtime.py',
]

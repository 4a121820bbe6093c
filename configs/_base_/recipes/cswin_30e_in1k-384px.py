"""CSwin's own fine-tuning on ImageNet-1k at 384 x 384, 30 epochs on a total batch of 256, with
averaged weights.

The fine-tuning command of CSwin's README, which has weaker Mixup and CutMix.
A config adds the backbone, `head.in_channels` and `load_from`, a checkpoint at 224 x 224.
"""

_base_ = [
    '../models/classifier.py',
    '../datasets/imagenet_bs32_cswin_384.py',
    '../schedules/imagenet_adamw_30e_384_cswin.py',
    '../default_runtime.py',
]
model = dict(
    train_cfg=dict(augments=[dict(type='Mixup', alpha=0.1), dict(type='CutMix', alpha=0.1)])
)

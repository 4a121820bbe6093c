"""DeiT's training on ImageNet-1k at 448 x 448, 300 epochs: a classifier on the class token.

A config adds the backbone and `head.in_channels`.
"""

_base_ = [
    '../models/classifier_cls_token.py',
    '../datasets/imagenet_bs128_448.py',
    '../schedules/imagenet_adamw_300e_deit.py',
    '../default_runtime.py',
]
# Repeated augmentation, as in deit_300e_in1k.py.
train_dataloader = dict(sampler=dict(type='RepeatAugSampler', num_repeats=3))

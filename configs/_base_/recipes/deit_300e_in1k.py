"""DeiT's training on ImageNet-1k, 300 epochs: a classifier on the class token.

A config adds the backbone and `head.in_channels`.
"""

_base_ = [
    '../models/classifier_cls_token.py',
    '../datasets/imagenet_bs128_224.py',
    '../schedules/imagenet_adamw_300e_deit.py',
    '../default_runtime.py',
]

# Repeated augmentation: three versions of an image in the batch of all GPUs, a third of the images
# in an epoch.
train_dataloader = dict(sampler=dict(type='RepeatAugSampler', num_repeats=3))

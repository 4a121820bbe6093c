"""PVT's and PVTv2's own training on ImageNet-1k, 300 epochs: DeiT's, on a total batch of 1024 for
every size.

`classification/main.py` of whai362/PVT, and its README's 8 GPUs with the default of 128 images on
each. Its cool-down of 10 epochs has no effect: the training ends after 300. The authors train in
mixed precision, here `--amp`. A config adds the backbone and `head.in_channels`; the official files
of PVT-M and -L and of PVTv2-B3 and -B4 also clip gradients at 1.
"""

_base_ = [
    '../models/classifier.py',
    '../datasets/imagenet_bs128_224.py',
    '../schedules/imagenet_adamw_300e_deit.py',
    '../default_runtime.py',
]

# Repeated augmentation, as in deit_300e_in1k.py.
train_dataloader = dict(sampler=dict(type='RepeatAugSampler', num_repeats=3))

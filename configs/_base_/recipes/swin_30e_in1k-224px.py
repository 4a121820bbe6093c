"""Swin's fine-tuning from ImageNet-22k on ImageNet-1k at 224 x 224, 30 epochs on a total batch of
1024.

The schedule is that of 384 x 384 with the rate of this batch.
A config adds the backbone, `head.in_channels` and `load_from`, a checkpoint of ImageNet-22k.
"""

_base_ = [
    '../models/classifier.py',
    '../datasets/imagenet_bs128_224.py',
    '../schedules/imagenet_adamw_30e_384.py',
    '../default_runtime.py',
]
train_dataloader = dict(batch_size=64)
optim_wrapper = dict(optimizer=dict(lr=2e-5 * 1024 / 512))
auto_scale_lr = dict(base_batch_size=1024)

"""L2ViT's fine-tuning from ImageNet-22k on ImageNet-1k, 30 epochs on a total batch of 1024, with
averaged weights.

A config adds the backbone, `head.in_channels` and `load_from`, a checkpoint of ImageNet-22k.
"""

_base_ = [
    '../models/classifier.py',
    '../datasets/imagenet_bs128_224.py',
    '../schedules/l2vit_in22k-pre_30e.py',
    '../default_runtime.py',
]
train_dataloader = dict(batch_size=64)

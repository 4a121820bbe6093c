"""L2ViT's fine-tuning from ImageNet-22k on ImageNet-1k at 384 x 384: otherwise as
l2vit_30e_in1k-224px.py.

A config adds the backbone, `head.in_channels` and `load_from`, a checkpoint of ImageNet-22k.
"""

_base_ = [
    '../models/classifier.py',
    '../datasets/imagenet_bs32_384.py',
    '../schedules/l2vit_in22k-pre_30e.py',
    '../default_runtime.py',
]
train_dataloader = dict(batch_size=64)

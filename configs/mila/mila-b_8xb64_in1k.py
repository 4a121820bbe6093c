"""MILA-B (MLLA) on ImageNet-1k.

MILA, README: 85.3 % top-1, 96 M parameters, 16.2 G FLOPs. Not run by this project. The authors train with MESA, whose
second loss compares with the averaged weights (weight 2); that is left out here. Drop path and images per GPU are the
authors'; inferred: 8 GPUs, and the rest as Swin.
"""
_base_ = [
    '../_base_/models/classifier.py', '../_base_/datasets/imagenet_bs128_224.py',
    '../_base_/schedules/imagenet_adamw_300e.py', '../_base_/default_runtime.py'
]

model = dict(backbone=dict(type='mmflatten.MLLA', arch='base', drop_path_rate=0.5), head=dict(in_channels=768))

train_dataloader = dict(batch_size=64)
optim_wrapper = dict(optimizer=dict(lr=5e-4 * 512 / 512))
auto_scale_lr = dict(base_batch_size=512)

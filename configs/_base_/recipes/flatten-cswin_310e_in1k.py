"""FLatten-CSwin's training on ImageNet-1k, 310 epochs on a total batch of 2048, with averaged
weights, evaluated on images squeezed to a square.

A config adds the backbone and `head.in_channels`.
"""

_base_ = [
    '../models/classifier.py',
    '../datasets/imagenet_bs128_flatten_224.py',
    '../schedules/imagenet_adamw_310e_flatten-cswin.py',
    '../default_runtime.py',
]
train_dataloader = dict(batch_size=256)
optim_wrapper = dict(optimizer=dict(lr=5e-4 * 2048 / 512))
auto_scale_lr = dict(base_batch_size=2048)

"""L2ViT's training on ImageNet-22k, 90 epochs on a total batch of 1024, without averaged weights.

The weight decay excludes the same parameters as in l2vit_300e_in1k.py.
A config adds the backbone and `head.in_channels`.
"""

_base_ = [
    '../models/classifier.py',
    '../datasets/in22k_bs128_224.py',
    '../schedules/l2vit_in1k_300e.py',
    '../default_runtime.py',
]
model = dict(head=dict(num_classes=21841))

optim_wrapper = dict(optimizer=dict(lr=1e-3))
param_scheduler = [
    dict(
        type='LinearLR',
        start_factor=1e-6 / 1e-3,
        by_epoch=True,
        begin=0,
        end=5,
        convert_to_iter_based=True,
    ),
    dict(
        type='CosineAnnealingLR',
        eta_min=1e-5,
        by_epoch=True,
        begin=5,
        end=90,
        convert_to_iter_based=True,
    ),
]
custom_hooks = []
train_cfg = dict(max_epochs=90)
auto_scale_lr = dict(base_batch_size=1024)

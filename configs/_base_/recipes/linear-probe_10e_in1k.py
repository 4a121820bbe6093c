"""Linear probe of a frozen backbone on ImageNet-1k, 10 epochs of SGD on a total batch of 1024.

The images are cropped and mirrored alone; neither Mixup nor smoothing of the labels.
A config adds the frozen backbone, which returns one vector an image, and `head.in_channels`.
"""

_base_ = [
    '../models/classifier_cls_token.py',
    '../datasets/imagenet_bs32_resnet_224.py',
    '../schedules/imagenet_sgd_90e.py',
    '../default_runtime.py',
]
model = dict(head=dict(loss=dict(label_smooth_val=0.0)), train_cfg=None)

train_dataloader = dict(batch_size=128)
optim_wrapper = dict(optimizer=dict(lr=0.01, weight_decay=0.0))
train_cfg = dict(max_epochs=10)
param_scheduler = [dict(type='CosineAnnealingLR', by_epoch=True, begin=0, end=10, T_max=10)]
auto_scale_lr = dict(base_batch_size=1024)

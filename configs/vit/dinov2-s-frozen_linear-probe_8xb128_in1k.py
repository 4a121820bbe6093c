"""Linear probe of a frozen DINOv2 ViT-S/14 on ImageNet-1k: class token and mean of the map, one
linear layer.

DINOv2's model zoo: 81.1 % top-1 with a linear layer (79.0 % with k-NN), the best of several rates,
depths and poolings. Not run by this project.
"""

_base_ = [
    '../_base_/models/classifier_cls_token.py',
    '../_base_/datasets/imagenet_bs32_resnet_224.py',
    '../_base_/schedules/imagenet_sgd_90e.py',
    '../_base_/default_runtime.py',
]

# Meta's dinov2_vits14_pretrain.pth (Apache 2.0), after `mmflatten convert --family auto`.
pretrained = 'checkpoints/dinov2-s.pth'
model = dict(
    backbone=dict(
        type='mmflatten.ViT',
        arch='dinov2-small',
        out_type='cls_and_avg',
        frozen_stages=12,
        init_cfg=dict(type='Pretrained', checkpoint=pretrained, prefix='backbone.'),
    ),
    head=dict(in_channels=768, loss=dict(label_smooth_val=0.0)),
    train_cfg=None,
)
train_dataloader = dict(batch_size=128)
optim_wrapper = dict(optimizer=dict(lr=0.01, weight_decay=0.0))
train_cfg = dict(max_epochs=10)
param_scheduler = [dict(type='CosineAnnealingLR', by_epoch=True, begin=0, end=10, T_max=10)]
auto_scale_lr = dict(base_batch_size=1024)

"""Mask R-CNN with ResNeXt-101 on COCO, 24 epochs: the baseline without attention.

Factorized Attention, Table 4: 43.5 box AP, 38.5 mask AP. Not run by this project. The paper does
not say which ResNeXt-101; 64x4d here, for which torchvision has weights. 32x8d: --cfg-options
model.backbone.groups=32 model.backbone.base_width=8 and its weights, resnext101_32x8d-8ba56ff5.pth.
"""

_base_ = ['./mask-rcnn_r50_fpn_32xb2-24e_coco.py']

# torchvision's ResNeXt-101 64x4d.
pretrained = 'checkpoints/resnext101_64x4d-173b62eb.pth'
model = dict(
    backbone=dict(
        type='mmflatten.AttentionResNeXt',
        depth=101,
        groups=64,
        base_width=4,
        init_cfg=dict(checkpoint=pretrained),
    )
)
# The paper's batch for this backbone is 32, on as many GPUs.
train_dataloader = dict(batch_size=1)
optim_wrapper = dict(optimizer=dict(lr=0.02 * 32 / 16))
auto_scale_lr = dict(base_batch_size=32)

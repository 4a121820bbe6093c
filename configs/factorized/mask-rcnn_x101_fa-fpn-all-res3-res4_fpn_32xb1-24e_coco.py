"""Mask R-CNN with ResNeXt-101 and factorized attention after every FPN level, res3 and res4.

Factorized Attention, Table 4: 44.9 box AP, 39.5 mask AP. Not run by this project.
Printed as gains, +1.4 and +1.0; Table 5 has 45.9 box AP.
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
        attention_after=(3, 4),
        init_cfg=dict(checkpoint=pretrained),
    ),
    neck=dict(attention_after=(1, 2, 3, 4, 5)),
)
# The paper's batch for this backbone is 32, on as many GPUs.
train_dataloader = dict(batch_size=1)
optim_wrapper = dict(optimizer=dict(lr=0.02 * 32 / 16))
auto_scale_lr = dict(base_batch_size=32)

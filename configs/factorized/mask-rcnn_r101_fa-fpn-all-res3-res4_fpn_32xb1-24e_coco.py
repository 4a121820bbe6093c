"""Mask R-CNN with ResNet-101 and factorized attention after every FPN level, res3 and res4.

Factorized Attention, Table 4: 43.1 box AP, 37.9 mask AP. Not run by this project.
Printed as gains, +1.8 and +1.3; Table 5 has the 43.1.
"""

_base_ = ['./mask-rcnn_r50_fpn_32xb2-24e_coco.py']

# torchvision's ResNet-101.
pretrained = 'checkpoints/resnet101-63fe2227.pth'
model = dict(
    backbone=dict(depth=101, attention_after=(3, 4), init_cfg=dict(checkpoint=pretrained)),
    neck=dict(attention_after=(1, 2, 3, 4, 5)),
)
# The paper's batch for this backbone is 32, on as many GPUs.
train_dataloader = dict(batch_size=1)
optim_wrapper = dict(optimizer=dict(lr=0.02 * 32 / 16))
auto_scale_lr = dict(base_batch_size=32)

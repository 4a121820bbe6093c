"""Mask R-CNN with ResNet-101 on COCO, 24 epochs: the baseline without attention.

Factorized Attention, Table 4: 41.3 box AP, 36.6 mask AP. Not run by this project.
"""

_base_ = ['./mask-rcnn_r50_fpn_32xb2-24e_coco.py']

# torchvision's ResNet-101.
pretrained = 'checkpoints/resnet101-63fe2227.pth'
model = dict(backbone=dict(depth=101, init_cfg=dict(checkpoint=pretrained)))
# The paper's batch for this backbone is 32, on as many GPUs.
train_dataloader = dict(batch_size=1)
optim_wrapper = dict(optimizer=dict(lr=0.02 * 32 / 16))
auto_scale_lr = dict(base_batch_size=32)

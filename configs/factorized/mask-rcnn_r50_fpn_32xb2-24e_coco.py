"""Mask R-CNN with ResNet-50 on COCO, 24 epochs: the baseline without attention, from which the
others inherit.

Factorized Attention, Tables 1 and 4: 39.4 box AP, 35.1 mask AP. Not run by this project.
The paper leaves open: optimizer and learning rate (see the schedule), image size (1333 x 800 here),
which layers are frozen (stem, first cluster and all batch norms, as usual), how attention starts
(as the identity, like the non-local module) and the width of its values (all channels).
"""

_base_ = ['../_base_/recipes/mask-rcnn_24e-sgd_coco.py']
# torchvision's ResNet-50.
pretrained = 'checkpoints/resnet50-0676ba61.pth'
attention = dict(
    type='FactorizedAttention',
    basis_channels=64,
    num_heads=1,
    normalization='gaussian',
    zero_init=True,
)
model = dict(
    backbone=dict(
        type='mmflatten.AttentionResNet',
        depth=50,
        frozen_stages=1,
        norm_eval=True,
        attention_after=(),
        attention=attention,
        init_cfg=dict(type='Pretrained', checkpoint=pretrained),
    ),
    neck=dict(
        type='mmflatten.AttentionFPN',
        in_channels=[256, 512, 1024, 2048],
        attention_after=(),
        attention=attention,
    ),
)

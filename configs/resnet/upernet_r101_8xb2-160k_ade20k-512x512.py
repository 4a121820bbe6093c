"""UperNet with ResNet-101 on ADE20K, 160 000 iterations.

Focal Transformer, Table 12: 44.9 mIoU, 86 M parameters, 1029 G FLOPs at 2048 x 512. Not run by this
project. Recipe: mmseg's, with its stem of three convolutions; the paper does not say where its
figures are from.
"""

_base_ = ['../_base_/recipes/upernet_160k-sgd_ade20k-512x512.py']

# mmseg's ResNet-101 with that stem (open-mmlab's resnet101_v1c).
pretrained = 'checkpoints/resnet101_v1c-e67eebb6.pth'
model = dict(
    backbone=dict(
        type='mmflatten.AttentionResNet',
        depth=101,
        deep_stem=True,
        norm_cfg=dict(type='SyncBN', requires_grad=True),
        norm_eval=False,
        init_cfg=dict(type='Pretrained', checkpoint=pretrained),
    ),
    decode_head=dict(in_channels=[256, 512, 1024, 2048]),
    auxiliary_head=dict(in_channels=1024),
)

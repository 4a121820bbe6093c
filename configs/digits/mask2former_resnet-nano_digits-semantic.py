"""Mask2Former for semantic segmentation with a narrow ResNet-18 on the digit scenes, its backbone
pre-trained in a Mask R-CNN.

Run by this project, one seed: 50.6 % mIoU and 93.3 % aAcc on the 200 held-out scenes after 12
epochs (31.4 and 50.5 % mIoU after 4 and 8, so 8 are enough), 818 s of processor time on one thread
of an AMD EPYC beside other processes, from the 4 epochs of the pre-training (257 s).

    mmflatten train configs/digits/mask-rcnn-1x1_resnet-nano_fpn_digits.py
    mmflatten train configs/digits/mask2former_resnet-nano_digits-semantic.py
"""

_base_ = ['../_base_/recipes/mask2former_finetune_digits-semantic.py']

pretrained = 'work_dirs/mask-rcnn-1x1_resnet-nano_fpn_digits/epoch_4.pth'
model = dict(
    backbone=dict(
        type='mmflatten.AttentionResNet',  # without attention: mmdet's ResNet
        depth=18,
        base_channels=32,
        stem_channels=32,
        norm_eval=False,
        init_cfg=dict(type='Pretrained', checkpoint=pretrained, prefix='backbone.'),
    ),
    decode_head=dict(in_channels=[32, 64, 128, 256]),
)

"""Mask2Former with a narrow ResNet-18 on the digit scenes, its backbone pre-trained in a Mask
R-CNN.

Run by this project: 0.354 mask mAP on the 200 held-out scenes after 12 epochs (0.196 and 0.309
after 4 and 8), 836 s of processor time on one thread of an AMD EPYC beside another process, from
the 4 epochs of the pre-training (230 s). With 36 epochs it has 0.451, and 0.835 on the scenes of
its training, which are too few for it; `mask-rcnn_resnet-nano_fpn_digits` has 0.656 after 240 s.
docs/measurements/query_heads.md says more.

    mmflatten train configs/digits/mask-rcnn-1x1_resnet-nano_fpn_digits.py
    mmflatten train configs/digits/mask2former_resnet-nano_digits.py
"""

_base_ = ['../_base_/recipes/mask2former_finetune_digits.py']

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
    panoptic_head=dict(in_channels=[32, 64, 128, 256]),
)

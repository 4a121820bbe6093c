"""Mask2Former for panoptic segmentation with a narrow ResNet-18 on the digit scenes, its backbone
pre-trained in a Mask R-CNN.

Run by this project, one seed: a PQ of 24.0 on the 200 held-out scenes after 12 epochs, 21.3 of
things and 30.9 of stuff (5.6 and 16.5 in all after 4 and 8), 918 s of processor time on one thread
of an AMD EPYC beside other processes, from the 4 epochs of the pre-training on the scenes without
stuff (257 s). It still rises. mmdet drops queries with a class probability below 0.8, which leaves
regions without a class. docs/measurements/query_heads.md has Panoptic FPN beside it.

    mmflatten train configs/digits/mask-rcnn-1x1_resnet-nano_fpn_digits.py
    mmflatten train configs/digits/mask2former_resnet-nano_digits-panoptic.py
"""

_base_ = ['../_base_/recipes/mask2former_finetune_digits-panoptic.py']

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

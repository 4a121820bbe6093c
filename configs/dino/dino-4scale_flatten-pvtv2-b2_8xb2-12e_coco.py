"""DINO-4scale with FLatten-PVTv2-B2 on COCO, 12 epochs.

No paper reports it. Not run by this project. Trained like Swin-T, with the drop path of its Mask
R-CNN.
"""

_base_ = ['../_base_/recipes/dino-4scale_12e_coco.py']

# A checkpoint of flatten-pvtv2-b2_8xb128_in1k.py; none is released.
pretrained = 'checkpoints/flatten-pvtv2-b2_in1k.pth'
model = dict(
    backbone=dict(
        type='mmflatten.FLattenPVTv2',
        arch='b2',
        attn_types='LLLL',
        drop_path_rate=0.2,
        init_cfg=dict(type='Pretrained', checkpoint=pretrained, prefix='backbone.'),
    ),
    neck=dict(in_channels=[128, 320, 512]),
)

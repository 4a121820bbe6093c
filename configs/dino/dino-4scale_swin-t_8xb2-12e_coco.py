"""DINO-4scale with Swin-T on COCO, 12 epochs.

No paper reports it; mmdet's model zoo has 49.0 box AP with ResNet-50. Not run by this project. The
drop path is that of mmdet's DINO with Swin-L.
"""

_base_ = ['../_base_/recipes/dino-4scale_12e_coco.py']

# A checkpoint of swin-t_8xb128_in1k.py, or the official one after tools/convert_checkpoint.py.
pretrained = 'checkpoints/swin-t_in1k.pth'
model = dict(
    backbone=dict(
        type='mmflatten.FLattenSwin',
        arch='tiny',
        attn_types='SSSS',
        drop_path_rate=0.2,
        init_cfg=dict(type='Pretrained', checkpoint=pretrained, prefix='backbone.'),
    ),
    neck=dict(in_channels=[192, 384, 768]),
)

"""Mask2Former for panoptic segmentation with Swin-T on COCO, 50 epochs.

mmdet's model zoo: 53.4 PQ, 43.4 mask AP, 46.3 box AP. The paper prints 232 G FLOPs, the mean of 100
images of COCO, which are smaller than 800 x 1280. Not run by this project. Drop path of mmdet's
config.
"""

_base_ = ['../_base_/recipes/mask2former_lsj-50e_coco-panoptic.py']

# A checkpoint of swin-t_8xb128_in1k.py, or the official one after tools/convert_checkpoint.py.
pretrained = 'checkpoints/swin-t_in1k.pth'
model = dict(
    backbone=dict(
        type='mmflatten.FLattenSwin',
        arch='tiny',
        attn_types='SSSS',
        drop_path_rate=0.3,
        init_cfg=dict(type='Pretrained', checkpoint=pretrained, prefix='backbone.'),
    ),
    panoptic_head=dict(in_channels=[96, 192, 384, 768]),
)

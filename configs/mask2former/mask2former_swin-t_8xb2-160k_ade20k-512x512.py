"""Mask2Former for semantic segmentation with Swin-T on ADE20K, 160 000 iterations.

mmseg's model zoo: 48.66 mIoU. The paper prints 74 G FLOPs at 512 x 512. Not run by this project.
Drop path of mmseg's config.
"""

_base_ = ['../_base_/recipes/mask2former_160k_ade20k-512x512.py']

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
    decode_head=dict(in_channels=[96, 192, 384, 768]),
)

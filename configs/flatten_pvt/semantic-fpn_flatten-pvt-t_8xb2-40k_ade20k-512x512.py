"""Semantic FPN with FLatten-PVT-T on ADE20K, 40 000 iterations.

FLatten Transformer, Table 1: 37.21 mIoU, 48.95 mAcc, 16 M parameters, 169 G FLOPs at 2048 x 512.
Not run by this project. The authors' segmentation code is not published, so the batch of their run
is unknown: PVT's own has 32 images at the same rate. Recipe: the same lab's Agent-Attention with
PVT, which has 16.
"""

_base_ = ['../_base_/recipes/semantic-fpn_40k_ade20k-512x512.py']

# A checkpoint of flatten-pvt-t_8xb128_in1k.py, or the official one after
# tools/convert_checkpoint.py.
pretrained = 'checkpoints/flatten-pvt-t_in1k.pth'
model = dict(
    backbone=dict(
        type='mmflatten.FLattenPVT',
        arch='tiny',
        attn_types='LLLL',
        drop_path_rate=0.1,
        init_cfg=dict(type='Pretrained', checkpoint=pretrained, prefix='backbone.'),
    ),
    neck=dict(in_channels=[64, 128, 320, 512]),
)

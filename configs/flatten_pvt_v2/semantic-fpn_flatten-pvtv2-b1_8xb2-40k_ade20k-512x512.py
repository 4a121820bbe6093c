"""Semantic FPN with FLatten-PVTv2-B1 on ADE20K, 40 000 iterations.

No paper reports it. Not run by this project. Recipe: the same lab's Agent-Attention with PVT-T,
which has the depth of B1.
"""

_base_ = ['../_base_/recipes/semantic-fpn_40k_ade20k-512x512.py']

# A checkpoint of flatten-pvtv2-b1_8xb128_in1k.py; none is released.
pretrained = 'checkpoints/flatten-pvtv2-b1_in1k.pth'
model = dict(
    backbone=dict(
        type='mmflatten.FLattenPVTv2',
        arch='b1',
        attn_types='LLLL',
        drop_path_rate=0.1,
        init_cfg=dict(type='Pretrained', checkpoint=pretrained, prefix='backbone.'),
    ),
    neck=dict(in_channels=[64, 128, 320, 512]),
)

"""Semantic FPN with PVT-T on ADE20K, 40 000 iterations, settings of semantic-fpn_flatten-pvt-t.

The baseline for a comparison in "the exact same settings" (FLatten Transformer, sec. 5.1); in its
own recipe it is semantic-fpn_pvt-t_8xb4-40k_ade20k-512x512.py. Not run by this project.
"""

_base_ = ['../_base_/recipes/semantic-fpn_40k_ade20k-512x512.py']

# A checkpoint of pvt-t_8xb128_in1k.py, or the official one after tools/convert_checkpoint.py.
pretrained = 'checkpoints/pvt-t_in1k.pth'
model = dict(
    backbone=dict(
        type='mmflatten.FLattenPVT',
        arch='tiny',
        attn_types='SSSS',
        drop_path_rate=0.1,
        init_cfg=dict(type='Pretrained', checkpoint=pretrained, prefix='backbone.'),
    ),
    neck=dict(in_channels=[64, 128, 320, 512]),
)

"""Mask R-CNN with FLatten-PVT-T on COCO, 12 epochs.

FLatten Transformer, Table 2a: 38.2 box AP, 37.0 mask AP, 32 M parameters, 244 G FLOPs. Not run by
this project. The authors' detection code is not published. Recipe: the same lab's Agent-Attention
with PVT: single-scale training, and every parameter decays.
"""

_base_ = ['../_base_/recipes/mask-rcnn_1x-pvt_coco.py']

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

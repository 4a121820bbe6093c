"""RetinaNet with FLatten-PVT-T on COCO, 12 epochs.

No paper reports it. Not run by this project. Recipe: the same lab's Agent-Attention with PVT.
"""

_base_ = ['../_base_/recipes/retinanet_1x-pvt_coco.py']

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
    neck=dict(in_channels=[128, 320, 512]),
)

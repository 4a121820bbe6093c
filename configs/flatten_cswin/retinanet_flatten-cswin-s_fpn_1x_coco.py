"""RetinaNet with FLatten-CSwin-S on COCO, 12 epochs.

No paper reports it. Not run by this project. Trained like FLatten-CSwin-T.
"""

_base_ = ['../_base_/recipes/retinanet_1x_coco.py']

# A checkpoint of flatten-cswin-s_8xb128_in1k.py.
pretrained = 'checkpoints/flatten-cswin-s_in1k.pth'
model = dict(
    backbone=dict(
        type='mmflatten.FLattenCSwin',
        arch='small',
        attn_types='LLSS',
        drop_path_rate=0.1,
        init_cfg=dict(type='Pretrained', checkpoint=pretrained, prefix='backbone.'),
    ),
    neck=dict(in_channels=[128, 256, 512]),
)

"""RetinaNet with PVT-T on COCO, 12 epochs.

No paper here reports it. Not run by this project. Recipe:
`detection/configs/retinanet_pvt_t_fpn_1x_coco.py` of whai362/PVT.
"""

_base_ = ['../_base_/recipes/retinanet_1x-pvt_coco.py']

# A checkpoint of pvt-t_8xb128_in1k.py, or the official one after tools/convert_checkpoint.py. Its
# class token is left behind, as in PVT's dense tasks.
pretrained = 'checkpoints/pvt-t_in1k.pth'
model = dict(
    backbone=dict(
        type='mmflatten.FLattenPVT',
        arch='tiny',
        attn_types='SSSS',
        drop_path_rate=0.1,
        init_cfg=dict(type='Pretrained', checkpoint=pretrained, prefix='backbone.'),
    ),
    neck=dict(in_channels=[128, 320, 512]),
)

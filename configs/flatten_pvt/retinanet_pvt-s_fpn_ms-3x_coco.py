"""RetinaNet with PVT-S on COCO, 36 epochs.

Focal Transformer, Table 4: 42.2 box AP, 34.2 M parameters, 226 G FLOPs. Not run by this project.
Recipe: `detection/configs/retinanet_pvt_s_fpn_1x_coco.py` of whai362/PVT, with 36 epochs and the
shorter side of the images at 640 to 800, as PVT's paper has it; a config of that is not published.
"""

_base_ = ['../_base_/recipes/retinanet_ms-3x-pvt_coco.py']

# A checkpoint of pvt-s_8xb128_in1k.py, or the official one after tools/convert_checkpoint.py.
pretrained = 'checkpoints/pvt-s_in1k.pth'
model = dict(
    backbone=dict(
        type='mmflatten.FLattenPVT',
        arch='small',
        attn_types='SSSS',
        drop_path_rate=0.1,
        init_cfg=dict(type='Pretrained', checkpoint=pretrained, prefix='backbone.'),
    ),
    neck=dict(in_channels=[128, 320, 512]),
)

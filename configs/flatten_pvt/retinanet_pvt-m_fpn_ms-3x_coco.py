"""RetinaNet with PVT-M on COCO, 36 epochs.

Focal Transformer, Table 4: 43.2 box AP, 53.9 M parameters, 283 G FLOPs. Not run by this project.
Recipe: `detection/configs/retinanet_pvt_m_fpn_1x_coco.py` of whai362/PVT, with 36 epochs and the
shorter side of the images at 640 to 800, as PVT's paper has it; a config of that is not published.
"""

_base_ = ['../_base_/recipes/retinanet_ms-3x-pvt_coco.py']

# A checkpoint of pvt-m_8xb128_in1k.py, or the official one after tools/convert_checkpoint.py.
pretrained = 'checkpoints/pvt-m_in1k.pth'
model = dict(
    backbone=dict(
        type='mmflatten.FLattenPVT',
        arch='medium',
        attn_types='SSSS',
        drop_path_rate=0.0,
        init_cfg=dict(type='Pretrained', checkpoint=pretrained, prefix='backbone.'),
    ),
    neck=dict(in_channels=[128, 320, 512]),
)

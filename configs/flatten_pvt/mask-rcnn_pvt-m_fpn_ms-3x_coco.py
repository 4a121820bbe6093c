"""Mask R-CNN with PVT-M on COCO, 36 epochs.

Focal Transformer, Table 4: 44.2 box AP, 40.5 mask AP, 63.9 M parameters, 302 G FLOPs. Not run by
this project. Recipe: `detection/configs/mask_rcnn_pvt_m_fpn_1x_coco.py` of whai362/PVT, with 36
epochs and the shorter side of the images at 640 to 800, as PVT's paper has it; a config of that is
not published.
"""

_base_ = ['../_base_/recipes/mask-rcnn_ms-3x-pvt_coco.py']

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
    neck=dict(in_channels=[64, 128, 320, 512]),
)

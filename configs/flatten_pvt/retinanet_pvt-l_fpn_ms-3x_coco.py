"""RetinaNet with PVT-L on COCO, 36 epochs.

Focal Transformer, Table 4: 43.4 box AP, 71.1 M parameters, 345 G FLOPs. Not run by this project.
PVT's recipe, with the shorter side of the images at 640 to 800.
"""
_base_ = ['../_base_/recipes/retinanet_ms-3x-pvt_coco.py']

# A checkpoint of pvt-l_8xb32_in1k.py, or the official one after tools/convert_checkpoint.py.
pretrained = 'checkpoints/pvt-l_in1k.pth'
model = dict(
    backbone=dict(
        type='mmflatten.FLattenPVT',
        arch='large',
        attn_types='SSSS',
        drop_path_rate=0.1,
        init_cfg=dict(type='Pretrained', checkpoint=pretrained, prefix='backbone.')),
    neck=dict(in_channels=[128, 320, 512]))

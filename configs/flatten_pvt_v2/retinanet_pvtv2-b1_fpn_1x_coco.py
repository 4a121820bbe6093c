"""RetinaNet with PVTv2-B1 on COCO, 12 epochs.

The baseline for a comparison in "the exact same settings" (FLatten Transformer, sec. 5.1). Not run
by this project.
"""

_base_ = ['../_base_/recipes/retinanet_1x-pvt_coco.py']

# A checkpoint of pvtv2-b1_8xb128_in1k.py, or the official one after tools/convert_checkpoint.py.
pretrained = 'checkpoints/pvtv2-b1_in1k.pth'
model = dict(
    backbone=dict(
        type='mmflatten.FLattenPVTv2',
        arch='b1',
        attn_types='SSSS',
        drop_path_rate=0.1,
        init_cfg=dict(type='Pretrained', checkpoint=pretrained, prefix='backbone.'),
    ),
    neck=dict(in_channels=[128, 320, 512]),
)

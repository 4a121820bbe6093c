"""ATSS with Swin-T on COCO, 36 epochs.

Focal Transformer, Table 5: 47.2 box AP, 35.7 M parameters, 212 G FLOPs. Not run by this project.
Drop path 0.2, as in all 3x configs with Swin-T and -S in Swin's detection code, which has none with
ATSS.
"""

_base_ = ['../_base_/recipes/atss_ms-3x_coco.py']

# A checkpoint of swin-t_8xb128_in1k.py, or the official one after tools/convert_checkpoint.py.
pretrained = 'checkpoints/swin-t_in1k.pth'
model = dict(
    backbone=dict(
        type='mmflatten.FLattenSwin',
        arch='tiny',
        attn_types='SSSS',
        drop_path_rate=0.2,
        init_cfg=dict(type='Pretrained', checkpoint=pretrained, prefix='backbone.'),
    ),
    neck=dict(in_channels=[192, 384, 768]),
)

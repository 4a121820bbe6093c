"""RetinaNet with Swin-B on COCO, 36 epochs.

Focal Transformer, Table 4: 45.8 box AP, 98.4 M parameters, 477 G FLOPs. Not run by this project.
Trained by Focal's authors like Focal-B (sec. 4.2), hence its drop path and scales.
"""

_base_ = ['../_base_/recipes/retinanet_ms-3x_coco.py']

# A checkpoint of swin-b_8xb64_in1k.py, or the official one after tools/convert_checkpoint.py.
pretrained = 'checkpoints/swin-b_in1k.pth'
model = dict(
    backbone=dict(
        type='mmflatten.FLattenSwin',
        arch='base',
        attn_types='SSSS',
        drop_path_rate=0.3,
        init_cfg=dict(type='Pretrained', checkpoint=pretrained, prefix='backbone.'),
    ),
    neck=dict(in_channels=[256, 512, 1024]),
)

"""RetinaNet with Swin-S on COCO, 12 epochs.

Focal Transformer, Tables 3 and 10: 45.0 box AP, 59.8 M parameters, 335 G FLOPs; L2ViT, Table 4:
44.5 box AP, of another training. Not run by this project.
Trained by Focal's authors like Focal-S (sec. 4.2), hence its drop path.
"""

_base_ = ['../_base_/recipes/retinanet_1x_coco.py']

# A checkpoint of swin-s_8xb128_in1k.py, or the official one after tools/convert_checkpoint.py.
pretrained = 'checkpoints/swin-s_in1k.pth'
model = dict(
    backbone=dict(
        type='mmflatten.FLattenSwin',
        arch='small',
        attn_types='SSSS',
        drop_path_rate=0.2,
        init_cfg=dict(type='Pretrained', checkpoint=pretrained, prefix='backbone.'),
    ),
    neck=dict(in_channels=[192, 384, 768]),
)

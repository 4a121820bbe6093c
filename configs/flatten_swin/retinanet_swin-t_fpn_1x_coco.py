"""RetinaNet with Swin-T on COCO, 12 epochs.

Focal Transformer, Tables 3 and 10: 42.0 box AP, 38.5 M parameters, 245 G FLOPs; L2ViT, Table 4, has
them too. Not run by this project.
Trained by Focal's authors like Focal-T (sec. 4.2), hence its drop path.
"""

_base_ = ['../_base_/recipes/retinanet_1x_coco.py']

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

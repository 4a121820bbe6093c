"""RetinaNet with Swin-B on COCO, 12 epochs.

Focal Transformer, Tables 3 and 10: 45.0 box AP, 98.4 M parameters, 477 G FLOPs; L2ViT, Table 4:
44.7 box AP, of another training. Not run by this project.
Trained by Focal's authors like Focal-B (sec. 4.2), hence its drop path.
"""

_base_ = ['../_base_/recipes/retinanet_1x_coco.py']

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

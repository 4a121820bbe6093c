"""UperNet with Focal-L on ADE20K at 640 x 640, 160 000 iterations, from ImageNet-22k weights.

Focal Transformer, Table 12: 52.3 mIoU, 53.8 with --tta; 240 M and 3376 G FLOPs, the latter at 3328
x 640, it seems: there Swin-L has the 3230 G of the same table, and this 3334 G. Not run by this
project. Trained like Focal-T.
"""

_base_ = ['../_base_/recipes/upernet_160k_ade20k-640x640.py']
# A classifier's checkpoint of this architecture, from ImageNet-22k. Neither the authors' weights
# nor how they made them from Swin-L's is published.
pretrained = 'checkpoints/focal-l_in22k.pth'
model = dict(
    backbone=dict(
        type='mmflatten.FocalTransformer',
        arch='large',
        focal_windows=(15, 13, 9, 7),
        expand_always=True,
        neighbor_boundary='mask',
        drop_path_rate=0.3,
        init_cfg=dict(type='Pretrained', checkpoint=pretrained, prefix='backbone.'),
    ),
    decode_head=dict(in_channels=[192, 384, 768, 1536]),
    auxiliary_head=dict(in_channels=768),
)

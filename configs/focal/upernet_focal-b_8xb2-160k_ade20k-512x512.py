"""UperNet with Focal-B on ADE20K, 160 000 iterations.

Focal Transformer, Table 12: 49.0 mIoU, 50.5 with --tta, 126 M and 1354 G FLOPs at 2048 x 512. Not
run by this project. Trained like Focal-T.
"""

_base_ = ['../_base_/recipes/upernet_160k_ade20k-512x512.py']

# A checkpoint of focal-b_8xb128_in1k.py, or the official one after tools/convert_checkpoint.py.
pretrained = 'checkpoints/focal-b_in1k.pth'
model = dict(
    backbone=dict(
        type='mmflatten.FocalTransformer',
        arch='base',
        focal_windows=(15, 13, 9, 7),
        expand_always=True,
        neighbor_boundary='mask',
        drop_path_rate=0.3,
        init_cfg=dict(type='Pretrained', checkpoint=pretrained, prefix='backbone.'),
    ),
    decode_head=dict(in_channels=[128, 256, 512, 1024]),
    auxiliary_head=dict(in_channels=512),
)

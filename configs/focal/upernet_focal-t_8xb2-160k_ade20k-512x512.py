"""UperNet with Focal-T on ADE20K, 160 000 iterations.

Focal Transformer, Table 12: 45.8 mIoU, 47.0 with --tta, 62 M and 998 G FLOPs at 2048 x 512. Not run
by this project. Recipe: appendix A.2 gives the iterations and 16 images; the rest, drop path
included, is Swin's. The authors' code for segmentation is not published. Focal regions as in
detection, since the paper gives none.
"""

_base_ = ['../_base_/recipes/upernet_160k_ade20k-512x512.py']

# A checkpoint of focal-t_8xb128_in1k.py, or the official one after tools/convert_checkpoint.py.
pretrained = 'checkpoints/focal-t_in1k.pth'
model = dict(
    backbone=dict(
        type='mmflatten.FocalTransformer',
        arch='tiny',
        focal_windows=(15, 13, 9, 7),
        expand_always=True,
        neighbor_boundary='mask',
        drop_path_rate=0.3,
        init_cfg=dict(type='Pretrained', checkpoint=pretrained, prefix='backbone.'),
    ),
    decode_head=dict(in_channels=[96, 192, 384, 768]),
    auxiliary_head=dict(in_channels=384),
)

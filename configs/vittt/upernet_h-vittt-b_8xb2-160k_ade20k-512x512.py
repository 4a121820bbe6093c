"""UperNet with H-ViT^3-B on ADE20K, 160 000 iterations.

ViT^3, README: 51.7 mIoU, 1195 G FLOPs at 2048 x 512. Not run by this project. Inferred: it trains
like Agent-Swin, of the same lab, with the drop path of the classifier.
"""

_base_ = ['../_base_/recipes/upernet_160k_ade20k-512x512.py']

# A checkpoint of h-vittt-b_8xb128_in1k.py.
pretrained = 'checkpoints/h-vittt-b_in1k.pth'
model = dict(
    backbone=dict(
        type='mmflatten.HViTTT',
        arch='base',
        drop_path_rate=0.5,
        init_cfg=dict(type='Pretrained', checkpoint=pretrained, prefix='backbone.'),
    ),
    decode_head=dict(in_channels=[96, 192, 448, 640]),
    auxiliary_head=dict(in_channels=448),
)

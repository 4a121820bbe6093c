"""UperNet with H-ViT^3-S on ADE20K, 160 000 iterations.

ViT^3, README: 50.2 mIoU, 1026 G FLOPs at 2048 x 512. Not run by this project. Inferred: it trains
like Agent-Swin, of the same lab, with the drop path of the classifier.
"""

_base_ = ['../_base_/recipes/upernet_160k_ade20k-512x512.py']

# A checkpoint of h-vittt-s_8xb128_in1k.py.
pretrained = 'checkpoints/h-vittt-s_in1k.pth'
model = dict(
    backbone=dict(
        type='mmflatten.HViTTT',
        arch='small',
        drop_path_rate=0.3,
        init_cfg=dict(type='Pretrained', checkpoint=pretrained, prefix='backbone.'),
    ),
    decode_head=dict(in_channels=[64, 128, 320, 512]),
    auxiliary_head=dict(in_channels=320),
)

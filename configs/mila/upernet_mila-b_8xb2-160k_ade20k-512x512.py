"""UperNet with MILA-B on ADE20K, 160 000 iterations.

MILA, README: 51.9 mIoU, 52.5 with --tta, 128 M parameters, 1183 G FLOPs at 2048 x 512. Not run by
this project. Inferred: it trains like Agent-Swin, of the same lab, with the drop path of the
classifier.
"""

_base_ = ['../_base_/recipes/upernet_160k_ade20k-512x512.py']

# A checkpoint of mila-b_8xb64_in1k.py.
pretrained = 'checkpoints/mila-b_in1k.pth'
model = dict(
    backbone=dict(
        type='mmflatten.MLLA',
        arch='base',
        drop_path_rate=0.5,
        init_cfg=dict(type='Pretrained', checkpoint=pretrained, prefix='backbone.'),
    ),
    decode_head=dict(in_channels=[96, 192, 384, 768]),
    auxiliary_head=dict(in_channels=384),
)

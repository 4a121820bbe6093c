"""UperNet with FLatten-Swin-S on ADE20K, 160 000 iterations.

FLatten Transformer, Table 1: 48.14 mIoU, 59.31 mAcc, 82 M parameters, 1038 G FLOPs at 2048 x 512.
Not run by this project. Trained like FLatten-Swin-T.
"""

_base_ = ['../_base_/recipes/upernet_160k_ade20k-512x512.py']

# A checkpoint of flatten-swin-s_8xb128_in1k.py.
pretrained = 'checkpoints/flatten-swin-s_in1k.pth'
model = dict(
    backbone=dict(
        type='mmflatten.FLattenSwin',
        arch='small',
        attn_types='LLSS',
        drop_path_rate=0.3,
        init_cfg=dict(type='Pretrained', checkpoint=pretrained, prefix='backbone.'),
    ),
    decode_head=dict(in_channels=[96, 192, 384, 768]),
    auxiliary_head=dict(in_channels=384),
)

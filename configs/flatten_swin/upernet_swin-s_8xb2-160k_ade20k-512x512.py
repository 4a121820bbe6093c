"""UperNet with Swin-S on ADE20K, 160 000 iterations.

FLatten Transformer, Table 1: 47.64 mIoU, 58.78 mAcc, 81 M parameters, 1038 G FLOPs at 2048 x 512.
Not run by this project. Trained like FLatten-Swin-S.
"""

_base_ = ['../_base_/recipes/upernet_160k_ade20k-512x512.py']

# A checkpoint of swin-s_8xb128_in1k.py, or the official one after tools/convert_checkpoint.py.
pretrained = 'checkpoints/swin-s_in1k.pth'
model = dict(
    backbone=dict(
        type='mmflatten.FLattenSwin',
        arch='small',
        attn_types='SSSS',
        drop_path_rate=0.3,
        init_cfg=dict(type='Pretrained', checkpoint=pretrained, prefix='backbone.'),
    ),
    decode_head=dict(in_channels=[96, 192, 384, 768]),
    auxiliary_head=dict(in_channels=384),
)

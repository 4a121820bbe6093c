"""UperNet with FLatten-Swin-T on ADE20K, 160 000 iterations.

FLatten Transformer, Table 1: 44.82 mIoU, 57.01 mAcc, 60 M parameters, 946 G FLOPs at 2048 x 512.
Not run by this project. The authors' segmentation code is not published. Recipe: the same lab's
Agent-Attention, which follows Swin's.
"""

_base_ = ['../_base_/recipes/upernet_160k_ade20k-512x512.py']

# A checkpoint of flatten-swin-t_8xb128_in1k.py, or the official one after
# tools/convert_checkpoint.py.
pretrained = 'checkpoints/flatten-swin-t_in1k.pth'
model = dict(
    backbone=dict(
        type='mmflatten.FLattenSwin',
        arch='tiny',
        attn_types='LLSS',
        drop_path_rate=0.3,
        init_cfg=dict(type='Pretrained', checkpoint=pretrained, prefix='backbone.'),
    ),
    decode_head=dict(in_channels=[96, 192, 384, 768]),
    auxiliary_head=dict(in_channels=384),
)

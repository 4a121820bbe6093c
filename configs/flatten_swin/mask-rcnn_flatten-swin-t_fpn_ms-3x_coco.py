"""Mask R-CNN with FLatten-Swin-T on COCO, 36 epochs.

FLatten Transformer, Table 2a: 46.5 box AP, 42.1 mask AP, 49 M parameters, 268 G FLOPs. Not run by
this project. The authors' detection code is not published. Recipe: the same lab's Agent-Attention,
after Swin's own code. A drop path of 0.1 is that lab's; Swin's own for 36 epochs is 0.2.
"""

_base_ = ['../_base_/recipes/mask-rcnn_ms-3x_coco.py']

# A checkpoint of flatten-swin-t_8xb128_in1k.py, or the official one after
# tools/convert_checkpoint.py.
pretrained = 'checkpoints/flatten-swin-t_in1k.pth'
model = dict(
    backbone=dict(
        type='mmflatten.FLattenSwin',
        arch='tiny',
        attn_types='LLSS',
        drop_path_rate=0.1,
        init_cfg=dict(type='Pretrained', checkpoint=pretrained, prefix='backbone.'),
    ),
    neck=dict(in_channels=[96, 192, 384, 768]),
)

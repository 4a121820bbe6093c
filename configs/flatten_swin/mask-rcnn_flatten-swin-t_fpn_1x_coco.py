"""Mask R-CNN with FLatten-Swin-T on COCO, 12 epochs.

FLatten Transformer, Table 2a: 44.2 box AP, 40.2 mask AP, 49 M parameters, 268 G FLOPs. Not run by
this project. The authors' detection code is not published. Recipe: the same lab's Agent-Attention,
after Swin's own code, with multi-scale training in the 1x schedule too.
"""

_base_ = ['../_base_/recipes/mask-rcnn_ms-1x_coco.py']

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

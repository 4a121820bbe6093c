"""ATSS with FLatten-Swin-T on COCO, 36 epochs.

No paper reports it; Focal Transformer, Table 5, has Swin-T at 47.2 box AP. Not run by this project.
Optimizer and drop path as in mask-rcnn_flatten-swin-t_fpn_ms-3x_coco.py.
"""

_base_ = ['../_base_/recipes/atss_ms-3x_coco.py']

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
    neck=dict(in_channels=[192, 384, 768]),
)

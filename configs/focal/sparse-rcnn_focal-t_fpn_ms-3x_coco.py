"""Sparse R-CNN with Focal-T on COCO, 36 epochs.

Focal Transformer, Table 5: 49.0 box AP, 110.8 M parameters, 196 G FLOPs. Not run by this project.
Recipe: sec. 4.2 and, for this detector, Swin's paper (sec. 4.2), which trains it with the same
optimizer; the authors' detection code is not published. Multi-scale training as in
mask-rcnn_focal-t_fpn_ms-3x_coco.py. Gradients are clipped at 1, as Sparse R-CNN's own code does.
"""

_base_ = ['../_base_/recipes/sparse-rcnn_ms-3x_coco.py']

# A checkpoint of focal-t_8xb128_in1k.py, or the official one after tools/convert_checkpoint.py.
pretrained = 'checkpoints/focal-t_in1k.pth'
model = dict(
    backbone=dict(
        type='mmflatten.FocalTransformer',
        arch='tiny',
        focal_windows=(15, 13, 9, 7),
        expand_always=True,
        neighbor_boundary='mask',
        drop_path_rate=0.2,
        init_cfg=dict(type='Pretrained', checkpoint=pretrained, prefix='backbone.'),
    ),
    neck=dict(in_channels=[96, 192, 384, 768]),
)

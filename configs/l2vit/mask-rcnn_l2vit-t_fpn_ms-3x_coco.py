"""Mask R-CNN with L2ViT-T on COCO, 36 epochs.

No paper reports it; the authors' code has its config. Not run by this project. Recipe: the authors'
code.
"""

_base_ = ['../_base_/recipes/mask-rcnn_ms-3x_coco.py']
# A checkpoint of l2vit-t_32xb128_in1k.py, or the official one after tools/convert_checkpoint.py.
pretrained = 'checkpoints/l2vit-t_in1k.pth'
model = dict(
    backbone=dict(
        type='mmflatten.L2ViT',
        arch='tiny',
        drop_path_rate=0.2,
        init_cfg=dict(type='Pretrained', checkpoint=pretrained, prefix='backbone.'),
    ),
    neck=dict(in_channels=[96, 192, 384, 768]),
)

# Everything decays: norms, biases and the temperature too.
optim_wrapper = dict(paramwise_cfg=None)

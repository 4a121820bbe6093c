"""Mask R-CNN with L2ViT-T on COCO, 12 epochs.

L2ViT, Table 4 (and the last lines of Tables 6 and 10): 45.5 box AP, 41.2 mask AP, 48 M parameters,
269 G FLOPs at 800 x
1280. Not run by this project. Recipe: the authors' code, with multi-scale training in the 1x
   schedule too.
"""

_base_ = ['../_base_/recipes/mask-rcnn_ms-1x_coco.py']
# A checkpoint of l2vit-t_32xb128_in1k.py, or the official one after tools/convert_checkpoint.py.
pretrained = 'checkpoints/l2vit-t_in1k.pth'
model = dict(
    backbone=dict(
        type='mmflatten.L2ViT',
        arch='tiny',
        drop_path_rate=0.1,
        init_cfg=dict(type='Pretrained', checkpoint=pretrained, prefix='backbone.'),
    ),
    neck=dict(in_channels=[96, 192, 384, 768]),
)

# Everything decays: norms, biases and the temperature too.
optim_wrapper = dict(paramwise_cfg=None)

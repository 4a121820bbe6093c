"""Mask R-CNN with RepViT-M2.3 on COCO, 12 epochs.

Not run by this project. Backbone: timm's, through mmpretrain's TIMMBackbone. Trained like Swin
here. Initial weights are random: name a checkpoint of repvit-m2.3_8xb128_in1k.py in `load_from`.
"""

_base_ = ['../_base_/recipes/mask-rcnn_1x_coco.py']

model = dict(
    backbone=dict(
        type='mmpretrain.TIMMBackbone',
        model_name='repvit_m2_3',
        features_only=True,
        out_indices=(0, 1, 2, 3),
    ),
    neck=dict(in_channels=[80, 160, 320, 640]),
)

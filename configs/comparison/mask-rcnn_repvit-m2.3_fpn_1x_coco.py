"""Mask R-CNN with RepViT-M2.3 on COCO, 12 epochs.

Not run by this project. Backbone: timm's (`pip install timm`). Trained like Swin here. Initial
weights are random; `model.backbone.pretrained=True` downloads timm's.
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

"""UperNet with EfficientViT-B2 on ADE20K, 160 000 iterations.

Not run by this project. Backbone: timm's (`pip install timm`). Trained like Swin here. Initial
weights are random; `model.backbone.pretrained=True` downloads timm's.
"""

_base_ = ['../_base_/recipes/upernet_160k_ade20k-512x512.py']

model = dict(
    backbone=dict(
        type='mmpretrain.TIMMBackbone',
        model_name='efficientvit_b2',
        features_only=True,
        out_indices=(0, 1, 2, 3),
    ),
    decode_head=dict(in_channels=[48, 96, 192, 384]),
    auxiliary_head=dict(in_channels=192),
)

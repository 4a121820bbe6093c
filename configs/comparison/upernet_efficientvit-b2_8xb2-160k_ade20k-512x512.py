"""UperNet with EfficientViT-B2 on ADE20K, 160 000 iterations.

Not run by this project. Backbone: timm's, through mmpretrain's TIMMBackbone. Trained like Swin
here. Initial weights are random: name a checkpoint of efficientvit-b2_8xb128_in1k.py in
`load_from`.
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

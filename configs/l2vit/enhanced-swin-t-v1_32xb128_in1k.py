"""Enhanced Swin-T v1: Swin-T with convolutional positional encoding, trained as L2ViT-T.

L2ViT, Table 6: 82.3 % top-1, 44.7 box AP in Mask R-CNN, 28 M parameters, 4.5 G FLOPs. Not run by
this project.
"""

_base_ = ['../_base_/recipes/l2vit_300e_in1k.py']

# Windows, every second one shifted; plain patches.
model = dict(
    backbone=dict(
        type='mmflatten.L2ViT',
        arch='tiny',
        block_order='WV',
        conv_stem=False,
        img_size=224,
        window_size=7,
        drop_path_rate=0.1,
    ),
    head=dict(in_channels=768),
)

"""Enhanced Swin-T v2: L2ViT-T with window attention in the place of its linear attention.

L2ViT, Table 6: 82.5 % top-1, 44.8 box AP in Mask R-CNN, 29 M parameters, 4.7 G FLOPs. Not run by
this project.
"""

_base_ = ['../_base_/recipes/l2vit_300e_in1k.py']

# The local concentration behind every second attention stays.
model = dict(
    backbone=dict(
        type='mmflatten.L2ViT',
        arch='tiny',
        block_order='WC',
        img_size=224,
        window_size=7,
        drop_path_rate=0.1,
    ),
    head=dict(in_channels=768),
)

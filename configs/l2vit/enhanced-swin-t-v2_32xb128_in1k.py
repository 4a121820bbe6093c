"""Enhanced Swin-T v2: L2ViT-T with window attention in the place of its linear attention.

L2ViT, Table 6: 82.5 % top-1, 44.8 box AP in Mask R-CNN, 29 M parameters, 4.7 G FLOPs. Not run by
this project.
"""

_base_ = [
    '../_base_/models/classifier.py',
    '../_base_/datasets/imagenet_bs128_224.py',
    '../_base_/schedules/l2vit_in1k_300e.py',
    '../_base_/default_runtime.py',
]

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

"""Enhanced Swin-T v2: L2ViT-T with window attention in the place of its linear attention.

L2ViT, Table 6: 82.5 % top-1, 44.8 box AP in Mask R-CNN, 29 M parameters, 4.7 G FLOPs. Not run by this project.
"""
_base_ = ['./l2vit-t_32xb128_in1k.py']

# The local concentration behind every second attention stays.
model = dict(backbone=dict(block_order='WC'))

"""Enhanced Swin-T v1: Swin-T with convolutional positional encoding, trained as L2ViT-T.

L2ViT, Table 6: 82.3 % top-1, 44.7 box AP in Mask R-CNN, 28 M parameters, 4.5 G FLOPs. Not run by this project.
"""
_base_ = ['./l2vit-t_32xb128_in1k.py']

# Windows, every second one shifted; plain patches.
model = dict(backbone=dict(block_order='WS', conv_stem=False))

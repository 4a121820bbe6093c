"""Deep and narrow L2ViT with four convolutions in its stem.

L2ViT, Table 7: 83.2 % top-1, 45.7 box AP and 41.1 mask AP in Mask R-CNN, 25 M parameters, 4.6 G
FLOPs. Not run by this project.
"""

_base_ = ['./l2vit-t_32xb128_in1k.py']

model = dict(backbone=dict(arch='deep-narrow', conv_stem='4L'), head=dict(in_channels=512))

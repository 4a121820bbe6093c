"""Deep and narrow L2ViT with four convolutions in its stem and a projection to 1280 channels before
the head.

L2ViT, Table 7: 83.4 % top-1, 46.0 box AP and 41.4 mask AP in Mask R-CNN, 26 M parameters, 4.6 G
FLOPs. Not run by this project.
"""

_base_ = ['./l2vit-t_32xb128_in1k.py']

model = dict(
    backbone=dict(arch='deep-narrow', conv_stem='4L', last_projection=1280),
    head=dict(in_channels=1280),
)

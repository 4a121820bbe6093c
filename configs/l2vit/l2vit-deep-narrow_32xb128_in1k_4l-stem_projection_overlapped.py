"""Deep and narrow L2ViT with four convolutions in its stem, a projection and 3 x 3 convolutions
between its stages.

L2ViT, Table 7: 83.5 % top-1, 46.3 box AP and 41.6 mask AP in Mask R-CNN, 27 M parameters, 4.7 G
FLOPs. Not run by this project.
"""

_base_ = ['./l2vit-t_32xb128_in1k.py']

model = dict(
    backbone=dict(
        arch='deep-narrow', conv_stem='4L', last_projection=1280, overlapped_downsample=True
    ),
    head=dict(in_channels=1280),
)

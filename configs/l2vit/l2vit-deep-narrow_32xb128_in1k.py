"""L2ViT-T made deeper and narrower: 4, 4, 18 and 4 blocks of 64 to 512 channels.

L2ViT, Table 7: 83.2 % top-1, 46.1 box AP and 41.6 mask AP in Mask R-CNN, 25 M parameters, 4.4 G
FLOPs. Not run by this project. The paper gives the blocks and the channels; only MLPs of ratio 3
give its parameters and FLOPs (29.5 M with its usual 4). Drop path as L2ViT-T: the paper names no
other.
"""

_base_ = ['./l2vit-t_32xb128_in1k.py']

model = dict(backbone=dict(arch='deep-narrow'), head=dict(in_channels=512))

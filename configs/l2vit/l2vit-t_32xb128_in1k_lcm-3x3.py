"""L2ViT-T with local concentration by 3 x 3 convolutions.

L2ViT, Table 6: 82.7 % top-1 (83.1 with 7 x 7), 45.3 box AP in Mask R-CNN, 29 M parameters, 4.6 G
FLOPs. Not run by this project.
"""

_base_ = ['./l2vit-t_32xb128_in1k.py']

model = dict(backbone=dict(lcm_kernel=3))

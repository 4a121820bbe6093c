"""L2ViT-T without local concentration, its plain MLP alone.

L2ViT, Table 6 (and "Plain MLP" of Table 12): 82.5 % top-1, 44.7 box AP in Mask R-CNN, 28 M
parameters, 4.5 G FLOPs. Not run by this project.
"""

_base_ = ['./l2vit-t_32xb128_in1k.py']

model = dict(backbone=dict(lcm_kernel=None))

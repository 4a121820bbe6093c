"""L2ViT-T without scale parameter and local concentration.

L2ViT, Table 6: 82.4 % top-1, 44.8 box AP in Mask R-CNN, 28 M parameters, 4.5 G FLOPs. Not run by
this project.
"""

_base_ = ['./l2vit-t_32xb128_in1k.py']

model = dict(backbone=dict(temperature=False, lcm_kernel=None))

"""L2ViT-T with a 3 x 3 depthwise convolution in its MLPs instead of local concentration.

L2ViT, Table 12: 81.9 % top-1, 29 M parameters, 4.7 G FLOPs. Not run by this project.
"""

_base_ = ['./l2vit-t_32xb128_in1k.py']

model = dict(backbone=dict(lcm_kernel=None, mlp='pvt_v2'))

"""L2ViT-T with locally improved MLPs instead of local concentration.

L2ViT, Table 12: 82.7 % top-1, 29 M parameters, 4.7 G FLOPs. Not run by this project.
"""

_base_ = ['./l2vit-t_32xb128_in1k.py']

# A depthwise convolution between norms and activations in the MLP: the paper's Figure 4, right.
model = dict(backbone=dict(lcm_kernel=None, mlp='local'))

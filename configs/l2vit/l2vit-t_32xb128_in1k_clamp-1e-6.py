"""L2ViT-T with a lower bound of 1e-6 for the denominator of its linear attention.

L2ViT, Table 10: the loss became NaN (1e2: 83.1 % top-1). Not run by this project.
"""

_base_ = ['./l2vit-t_32xb128_in1k.py']

# Training stops by itself at the first NaN, and names it.
model = dict(backbone=dict(min_denominator=1e-6))

"""L2ViT-T with a lower bound of 1e1 for the denominator of its linear attention.

L2ViT, Table 10: 82.9 % top-1, 45.1 box AP and 41.0 mask AP in Mask R-CNN (1e2: 83.1). Not run by
this project.
"""

_base_ = ['./l2vit-t_32xb128_in1k.py']

model = dict(backbone=dict(min_denominator=1e1))

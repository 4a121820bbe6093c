"""Focal-T with depths 2-2-2-2 instead of 2-2-6-2.

Focal Transformer, Table 8: 79.9 % top-1, 21.7 M parameters, 3.4 G FLOPs; in Mask R-CNN 1x 40.5 box
AP and 37.6 mask AP. Not run by this project.
"""

_base_ = ['./focal-t_8xb128_in1k.py']

model = dict(
    backbone=dict(
        arch=dict(_delete_=True, embed_dims=96, depths=(2, 2, 2, 2), num_heads=(3, 6, 12, 24))
    )
)

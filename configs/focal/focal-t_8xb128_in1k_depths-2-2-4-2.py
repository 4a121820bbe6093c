"""Focal-T with depths 2-2-4-2 instead of 2-2-6-2.

Focal Transformer, Table 8: 81.4 % top-1, 25.4 M parameters, 4.1 G FLOPs; in Mask R-CNN 1x 43.3 box
AP and 39.8 mask AP. Not run by this project.
"""

_base_ = ['./focal-t_8xb128_in1k.py']

model = dict(
    backbone=dict(
        arch=dict(_delete_=True, embed_dims=96, depths=(2, 2, 4, 2), num_heads=(3, 6, 12, 24))
    )
)

"""Swin-T with depths 2-2-4-2 instead of 2-2-6-2.

Focal Transformer, Table 8: 80.2 % top-1, 24.7 M parameters, 3.8 G FLOPs; in Mask R-CNN 1x 41.2 box
AP and 38.1 mask AP. Not run by this project.
"""

_base_ = ['../flatten_swin/swin-t_8xb128_in1k.py']

model = dict(
    backbone=dict(
        arch=dict(_delete_=True, embed_dims=96, depths=(2, 2, 4, 2), num_heads=(3, 6, 12, 24))
    )
)
